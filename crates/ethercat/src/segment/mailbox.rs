// SPDX-License-Identifier: MIT OR Apache-2.0
//! A SubDevice's answers to messages in its mailbox: CoE, that is SDOs, expedited or in one piece.
//!
//! References: ETG.1000.6, 5.6 (CoE), ETG.1000.4, 5.6 (mailbox header).

use super::objects::{Abort, Objects};

const HEAD: usize = 6;
const COE: u8 = 3;
const ERROR: u8 = 0;
const REQUEST: u16 = 2;
const RESPONSE: u16 = 3;
const INFORMATION: u16 = 8;

/// Why a message is refused as a whole: the detail of a mailbox error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
enum MailboxError {
    Protocol = 2,
    Service = 4,
    Header = 5,
    Short = 6,
}

/// The answer to `message`, which is as long as its mailbox; `None` where none is due. `counter` numbers
/// answers, 1 to 7.
pub fn answer(message: &[u8], objects: &mut Objects, is_pre_op: bool, counter: &mut u8) -> Option<Vec<u8>> {
    let head = message.get(..HEAD)?;
    let length = usize::from(u16::from_le_bytes([head[0], head[1]]));
    let body = message.get(HEAD..HEAD + length);
    let (kind, body) = match (head[5] & 0x0F, body) {
        (COE, Some(body)) => match coe(body, objects, is_pre_op) {
            Ok(answer) => (COE, answer?),
            Err(refusal) => (ERROR, error(refusal)),
        },
        (COE, None) => (ERROR, error(MailboxError::Header)),
        _ => (ERROR, error(MailboxError::Protocol)),
    };
    *counter = *counter % 7 + 1;
    let [low, high] = (body.len() as u16).to_le_bytes();
    let mut answer = vec![low, high, 0, 0, 0, kind | *counter << 4];
    answer.extend(body);
    Some(answer)
}

fn error(detail: MailboxError) -> Vec<u8> {
    let [low, high] = (detail as u16).to_le_bytes();
    vec![1, 0, low, high]
}

fn coe(body: &[u8], objects: &mut Objects, is_pre_op: bool) -> Result<Option<Vec<u8>>, MailboxError> {
    let service = u16::from_le_bytes([
        *body.first().ok_or(MailboxError::Short)?,
        *body.get(1).ok_or(MailboxError::Short)?,
    ]) >> 12;
    match service {
        REQUEST => sdo(body.get(2..).unwrap_or_default(), objects, is_pre_op),
        // No list of objects: their descriptions are not asked for by who only exchanges data.
        INFORMATION => {
            Ok(Some(with_service(INFORMATION, &[&[7, 0, 0, 0], &code(Abort::Access)[..]].concat())))
        }
        _ => Err(MailboxError::Service),
    }
}

fn code(abort: Abort) -> [u8; 4] {
    (abort as u32).to_le_bytes()
}

fn with_service(service: u16, rest: &[u8]) -> Vec<u8> {
    let [low, high] = (service << 12).to_le_bytes();
    let mut bytes = vec![low, high];
    bytes.extend(rest);
    bytes
}

/// An SDO: command, index, subindex, and four bytes of data or of their length.
fn sdo(request: &[u8], objects: &mut Objects, is_pre_op: bool) -> Result<Option<Vec<u8>>, MailboxError> {
    let [command, low, high, sub, rest @ ..] = request else { return Err(MailboxError::Short) };
    let index = u16::from_le_bytes([*low, *high]);
    let done = match command >> 5 {
        // The MainDevice gives up; nothing is kept of what it gave up.
        4 => return Ok(None),
        _ if command & 0x10 != 0 && matches!(command >> 5, 1 | 2) => Err(Abort::Access),
        1 => download(*command, rest)
            .and_then(|value| objects.write(index, *sub, value, is_pre_op))
            .map(|()| None),
        2 => objects.read(index, *sub).map(Some),
        _ => Err(Abort::Command),
    };
    let head = |command: u8| [command, *low, *high, *sub];
    let answer = match done {
        Ok(None) => with_service(RESPONSE, &[&head(0x60)[..], &[0; 4]].concat()),
        Ok(Some(value)) if value.len() <= 4 => {
            let unused = 4 - value.len();
            let command = 0x43 | (unused as u8) << 2;
            with_service(RESPONSE, &[&head(command)[..], &value, &vec![0; unused]].concat())
        }
        Ok(Some(value)) => {
            let length = (value.len() as u32).to_le_bytes();
            with_service(RESPONSE, &[&head(0x41)[..], &length, &value].concat())
        }
        Err(abort) => with_service(REQUEST, &[&head(0x80)[..], &code(abort)].concat()),
    };
    Ok(Some(answer))
}

/// The value that a download brings.
fn download(command: u8, rest: &[u8]) -> Result<&[u8], Abort> {
    let (expedited, sized) = (command & 2 != 0, command & 1 != 0);
    let (start, length): (usize, usize) = match (expedited, rest) {
        (true, _) if sized => (0, 4 - usize::from(command >> 2 & 3)),
        (true, _) => (0, 4),
        (false, [a, b, c, d, ..]) => (4, u32::from_le_bytes([*a, *b, *c, *d]) as usize),
        (false, _) => return Err(Abort::Length),
    };
    rest.get(start..start.saturating_add(length)).ok_or(Abort::Length)
}
