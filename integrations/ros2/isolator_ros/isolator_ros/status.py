# SPDX-License-Identifier: MIT OR Apache-2.0
"""
The figures of `isolator monitor --prometheus` as diagnostics, without anything of ROS.

A loop's row is an error where cycles were late or periods were missed since it was judged last; a
warning where that was earlier in the run, or where cycles were lost to the measurement.
"""

import re
from collections import namedtuple

OK, WARN, ERROR, STALE = range(4)
LEVELS = ('ok', 'warning', 'error', 'stale')

Status = namedtuple('Status', 'name level message values')

_SAMPLE = re.compile(r'(isolator_\w+)\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\} (\S+)')
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPES = {'\\n': '\n', '\\"': '"', '\\\\': '\\'}
_COUNTS = ('isolator_late_cycles_total', 'isolator_missed_periods_total', 'isolator_lost_cycles_total')


def _labels(text):
    def plain(value):
        return re.sub(r'\\.', lambda found: _ESCAPES.get(found.group(), found.group()), value)
    return {name: plain(value) for name, value in _LABEL.findall(text)}


def rows(text):
    """
    Return the rows of Prometheus' text format or of OpenMetrics.

    A dictionary by (loop, probe, load, cpu); each row has 'count', 'within' (the least bound in
    seconds that all samples are within, infinite where none is), and the counters and the limit by
    their names, where the row has them.
    """
    found = {}
    for line in text.splitlines():
        sample = _SAMPLE.match(line)
        if not sample:
            continue
        name, value = sample.group(1), float(sample.group(3))
        labels = _labels(sample.group(2))
        key = (labels.get('loop', ''), labels.get('probe', ''), labels.get('load', ''), labels.get('cpu', ''))
        row = found.setdefault(key, {'count': 0, 'buckets': []})
        if name == 'isolator_latency_seconds_bucket':
            row['buckets'].append((float(labels['le']), value))
        elif name == 'isolator_latency_seconds_count':
            row['count'] = int(value)
        else:
            row[name] = value
    for row in found.values():
        within = [bound for bound, count in row.pop('buckets') if count >= row['count']]
        row['within'] = min(within, default=float('inf'))
    return found


def _time(seconds):
    if seconds == float('inf'):
        return 'above 1 s'
    return '%.3g us' % (seconds * 1e6)


class Judge:
    """Turns the rows of one run into statuses, each time against the time before."""

    def __init__(self):
        self._before = {}

    def statuses(self, text):
        """Return a status for each row of `text`, in the order of their names."""
        made = []
        for key, row in sorted(rows(text).items()):
            loop, probe, load, cpu = key
            late, missed, lost = (int(row.get(name, 0)) for name in _COUNTS)
            # A run that began anew counts from 0.
            before = self._before.get(key, 0)
            now = late + missed - before if late + missed >= before else late + missed
            self._before[key] = late + missed
            level = ERROR if now else WARN if late + missed + lost else OK
            message = '%d late, %d missed of %d' % (late, missed, row['count'] + missed)
            values = [
                ('samples', str(row['count'])),
                ('all within', _time(row['within']) if row['count'] else 'no samples'),
                ('late cycles', str(late)),
                ('missed periods', str(missed)),
                ('lost cycles', str(lost)),
            ]
            if 'isolator_limit_seconds' in row:
                values.append(('limit', _time(row['isolator_limit_seconds'])))
            name = 'isolator: %s%s under %s on cpu %s' % (probe, ' of ' + loop if loop else '', load, cpu)
            made.append(Status(name, level, message, values))
        return made


def stale(source, why):
    """Return the status of figures that cannot be read."""
    return Status('isolator: monitor', STALE, 'cannot read %s: %s' % (source, why), [])
