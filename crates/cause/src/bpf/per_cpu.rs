// SPDX-License-Identifier: MIT OR Apache-2.0
//! How far a CPU's own variables lie from its run queue, by the kernel's types: for `tools/per_cpu.h`.
//!
//! A kernel lists the names of its variables only with CONFIG_KALLSYMS_ALL. Its types (BTF) always have those
//! of each CPU, with their places. (Documentation/bpf/btf.rst)

/// Sizes in the kernel's types: what follows the three words of each kind, and what each of its members
/// takes. By kind from 0 on.
const SIZES: [(usize, usize); 20] = [
    (0, 0),
    (4, 0),
    (0, 0),
    (12, 0),
    (0, 12),
    (0, 12),
    (0, 8),
    (0, 0),
    (0, 0),
    (0, 0),
    (0, 0),
    (0, 0),
    (0, 0),
    (0, 8),
    (4, 0),
    (0, 12),
    (0, 0),
    (4, 0),
    (0, 0),
    (0, 12),
];

/// Kinds whose members begin with a name.
const NAMED: [usize; 5] = [STRUCT, 5, 6, 13, 19];

const STRUCT: usize = 4;
const VARIABLE: usize = 14;
const SECTION: usize = 15;

/// The distances, in bytes; 0 where the types do not tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PerCpu {
    preempt_count: [u8; 8],
    steal: [u8; 8],
}

impl PerCpu {
    /// As values of the globals of a BPF part.
    pub(super) fn globals(&self) -> [(&'static str, &[u8]); 2] {
        [("preempt_count_from_rq", &self.preempt_count), ("steal_from_rq", &self.steal)]
    }

    /// Those of a kernel with these types.
    pub(super) fn in_types(bytes: &[u8]) -> Option<PerCpu> {
        let types = Types::of(bytes)?;
        let rq = types.variable("runqueues")?;
        // Linux 6.2 to 6.14 have it within a structure.
        let count = types
            .variable("__preempt_count")
            .or_else(|| Some(types.variable("pcpu_hot")? + types.offset_of_preempt_count()?));
        let from_rq = |at: Option<i64>| at.map_or(0, |at| at - rq).to_ne_bytes();
        Some(PerCpu { preempt_count: from_rq(count), steal: from_rq(types.variable("steal_time")) })
    }
}

/// Whether each type and each name lie within them: the library that reads them for BPF programs relies on
/// that.
pub(super) fn are_whole(bytes: &[u8]) -> bool {
    Types::of(bytes).is_some()
}

/// The kernel's types, as they lie in its file.
struct Types<'a> {
    types: &'a [u8],
    names: &'a [u8],
    /// Where each type lies, by its number less one.
    places: Vec<usize>,
}

impl<'a> Types<'a> {
    fn of(bytes: &'a [u8]) -> Option<Types<'a>> {
        let word = |at| word(bytes, at);
        let part = |at: usize, length: usize| {
            let begin = word(4)?.checked_add(word(at)?)?;
            bytes.get(begin..begin.checked_add(word(length)?)?)
        };
        let mut types = Types { types: part(8, 12)?, names: part(16, 20)?, places: Vec::new() };
        let mut at = 0;
        while at < types.types.len() {
            let (kind, members) = types.kind(at)?;
            let (whole, each) = SIZES.get(kind)?;
            let members = at + 12 + whole..at + 12 + whole + each * members;
            let named =
                if NAMED.contains(&kind) { members.clone().step_by(*each) } else { (0..0).step_by(1) };
            if [at].into_iter().chain(named).any(|at| types.name(at).is_none()) {
                return None;
            }
            types.places.push(at);
            at = members.end;
        }
        (at == types.types.len()).then_some(types)
    }

    fn kind(&self, at: usize) -> Option<(usize, usize)> {
        let info = word(self.types, at + 4)?;
        Some((info >> 24 & 0x1f, info & 0xffff))
    }

    /// The names from that of a type or a member on.
    fn name(&self, at: usize) -> Option<&[u8]> {
        word(self.types, at).and_then(|place| self.names.get(place..)).filter(|names| !names.is_empty())
    }

    fn is_named(&self, at: usize, name: &str) -> bool {
        self.name(at).is_some_and(|text| {
            text.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&0))
        })
    }

    fn all(&self, kind: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
        let of =
            move |at: &usize| Some((*at, self.kind(*at)?.1)).filter(|_| self.kind(*at).unwrap().0 == kind);
        self.places.iter().filter_map(of)
    }

    /// The place of a variable among those of each CPU.
    fn variable(&self, name: &str) -> Option<i64> {
        let (section, count) = self.all(SECTION).find(|(at, _)| self.is_named(*at, ".data..percpu"))?;
        let variables = (0..count).map(|number| section + 12 + 12 * number);
        let is_it = |at: usize| {
            let of = word(self.types, at)?.checked_sub(1).and_then(|number| self.places.get(number))?;
            let is_variable = self.kind(*of)?.0 == VARIABLE;
            (is_variable && self.is_named(*of, name)).then_some(word(self.types, at + 4)? as i64)
        };
        variables.into_iter().find_map(is_it)
    }

    /// Where `struct pcpu_hot` has the count, in an anonymous structure of its own.
    fn offset_of_preempt_count(&self) -> Option<i64> {
        self.all(STRUCT).find_map(|(at, members)| {
            let mut members = (0..members).map(|number| at + 12 + 12 * number);
            let is_hot = members.clone().any(|member| self.is_named(member, "hardirq_stack_ptr"));
            let count = members.find(|member| self.is_named(*member, "preempt_count"))?;
            is_hot.then_some((word(self.types, count + 8)? & 0xff_ffff) as i64 / 8)
        })
    }
}

fn word(bytes: &[u8], at: usize) -> Option<usize> {
    let word = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(word.try_into().ok()?) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Types with these variables of each CPU, and a structure before them.
    fn types(variables: &[(&str, u32)]) -> Vec<u8> {
        let mut names = b"\0.data..percpu\0preempt_count\0hardirq_stack_ptr\0".to_vec();
        let place = |names: &[u8], name: &[u8]| {
            (0..names.len()).find(|at| names[*at..].starts_with(name)).unwrap() as u32
        };
        let member = |name: &[u8], bits| [place(&names, name), 0, bits];
        let mut words = vec![0, (STRUCT as u32) << 24 | 2, 24];
        words.extend([member(b"preempt_count\0", 64), member(b"hardirq_stack_ptr\0", 128)].concat());
        let mut section =
            vec![place(&names, b".data..percpu\0"), (SECTION as u32) << 24 | variables.len() as u32, 0];
        for (number, (name, offset)) in variables.iter().enumerate() {
            words.extend([names.len() as u32, (VARIABLE as u32) << 24, 1, 0]);
            names.extend(name.bytes().chain([0]));
            section.extend([number as u32 + 2, *offset, 8]);
        }
        words.extend(section);
        let types: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let head = [0x1_eb9f, 24, 0, types.len() as u32, types.len() as u32, names.len() as u32];
        head.iter().flat_map(|word| word.to_ne_bytes()).chain(types).chain(names).collect()
    }

    #[test]
    fn the_kernels_types_say_how_far_variables_lie() {
        let far = |bytes: [u8; 8]| i64::from_ne_bytes(bytes);
        let of = |variables: &[(&str, u32)]| PerCpu::in_types(&types(variables)).unwrap();
        let new = of(&[("__preempt_count", 0x30), ("steal_time", 0x900), ("runqueues", 0x500)]);
        assert_eq!((far(new.preempt_count), far(new.steal)), (-0x4d0, 0x400));
        let hot = of(&[("pcpu_hot", 0x40), ("runqueues", 0x500)]);
        assert_eq!((far(hot.preempt_count), far(hot.steal)), (-0x4b8, 0));
    }

    #[test]
    fn foreign_types_tell_nothing() {
        let whole = types(&[("runqueues", 0x500)]);
        assert_eq!(PerCpu::in_types(&types(&[("other", 0)])), None);
        assert!(are_whole(&whole));
        for length in 0..whole.len() {
            let _ = PerCpu::in_types(&whole[..length]);
        }
        // A type of two members whose section ends within them.
        let mut cut = whole;
        cut[12..16].copy_from_slice(&20_u32.to_ne_bytes());
        assert!(!are_whole(&cut));
        let mut nameless = types(&[("runqueues", 0x500)]);
        nameless[24..28].copy_from_slice(&0xffff_u32.to_ne_bytes());
        assert!(!are_whole(&nameless));
    }
}
