// SPDX-License-Identifier: MIT OR Apache-2.0
//! Advice on disturbances: one table for the audit, the planner, the preflight and `isolator why`.
//!
//! Each advice names the setting of a plan that carries it out, or says why no plan does. A [`Knob`] is a
//! setting that at least one of them advises; its value, its form and its place on the plan are decided here
//! alone, so that an advice cannot differ from the plan of the same machine and profile. Everything else is
//! done by [`Hand`].

use std::borrow::Cow;
use std::fmt;

mod knob;
#[cfg(test)]
mod tests;

pub use knob::{Aim, Knob, WhyNot};

/// The advice, and the way to carry it out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    text: Cow<'static, str>,
    by: CarriedOutBy,
}

/// The way to carry an advice out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CarriedOutBy {
    /// The action of a plan on this setting.
    Plan(Knob),
    /// A user: the plan leaves this setting, for this reason.
    Left(Knob, Cow<'static, str>),
    /// A user: it is no setting that a plan could have.
    Hand(Hand),
}

/// The kinds of advice that a plan cannot carry out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hand {
    /// A command or a place that shows more.
    Search,
    /// The program that has the deadline, or that disturbs it.
    Program,
    /// A kernel that is built otherwise.
    Kernel,
    /// A word on the boot line that others wrote.
    BootLine,
    /// The boot loader, its entries, and initial RAM disks.
    Loader,
    /// The firmware, and the hardware.
    Firmware,
    /// A board's power modes and clocks.
    Board,
    /// The host of a guest.
    Host,
    /// How a container is started.
    Container,
    /// A network, its interfaces and their traffic.
    Network,
    /// A service, a driver or a tool of others.
    Service,
    /// The users of the machine and their sessions.
    Session,
}

/// Page faults, of a program with a deadline.
pub const LOCK_MEMORY: Advice = Advice {
    text: Cow::Borrowed(
        "lock and touch the program's memory before its loop (mlockall, prefault; libisolator does both)",
    ),
    by: CarriedOutBy::Hand(Hand::Program),
};
/// Time that the firmware takes.
pub const FIRMWARE: Advice = Advice {
    text: Cow::Borrowed(
        "in the firmware's menu: USB legacy support, error logging and power capping off, fan control by hardware; update it",
    ),
    by: CarriedOutBy::Hand(Hand::Firmware),
};
/// Time that a hypervisor takes.
pub const PIN_GUEST: Advice = Advice {
    text: Cow::Borrowed("on the host: pin each virtual CPU to an isolated CPU"),
    by: CarriedOutBy::Hand(Hand::Host),
};

/// A clock of which the hypervisor disposes.
pub const STABLE_CLOCK: Advice = Advice {
    text: Cow::Borrowed("let the host offer an invariant TSC (-cpu host,+invtsc)"),
    by: CarriedOutBy::Hand(Hand::Host),
};

impl Hand {
    /// All of them.
    pub const ALL: [Hand; 12] = [
        Hand::Search,
        Hand::Program,
        Hand::Kernel,
        Hand::BootLine,
        Hand::Loader,
        Hand::Firmware,
        Hand::Board,
        Hand::Host,
        Hand::Container,
        Hand::Network,
        Hand::Service,
        Hand::Session,
    ];

    /// Why no plan does it.
    pub fn reason(self) -> &'static str {
        match self {
            Hand::Search => "it changes nothing on the machine",
            Hand::Program => "the program itself has to do it",
            Hand::Kernel => "another kernel has to be installed and booted",
            Hand::BootLine => "a plan adds to the boot line, and leaves what others wrote there",
            Hand::Loader => {
                "a plan writes the boot line, and no entry, default or initial RAM disk of others"
            }
            Hand::Firmware => "only the firmware or the hardware can be changed for it",
            Hand::Board => "the board's own tools keep its power mode and clocks",
            Hand::Host => "the host decides it",
            Hand::Container => "a container's rights are given where it is started",
            Hand::Network => "which interface serves the program is not known",
            Hand::Service => "a plan stops no service and unloads no driver of others",
            Hand::Session => "which users get the rights is not for a plan to say",
        }
    }

    /// The advice `text`.
    pub fn advice(self, text: impl Into<Cow<'static, str>>) -> Advice {
        Advice { text: text.into(), by: CarriedOutBy::Hand(self) }
    }
}

impl Advice {
    /// Advice that a plan carries out as a whole, `text` in words: isolating CPUs.
    pub fn plan(text: impl Into<Cow<'static, str>>) -> Advice {
        Advice { text: text.into(), by: CarriedOutBy::Plan(Knob::Isolcpus) }
    }

    /// The way to carry it out.
    pub fn by(&self) -> &CarriedOutBy {
        &self.by
    }

    /// Why no plan carries it out, where none does.
    pub fn why_by_hand(&self) -> Option<&str> {
        match &self.by {
            CarriedOutBy::Plan(_) => None,
            CarriedOutBy::Left(_, reason) => Some(reason),
            CarriedOutBy::Hand(hand) => Some(hand.reason()),
        }
    }

    /// With `text` before it.
    pub fn after(self, text: impl fmt::Display) -> Advice {
        Advice { text: format!("{text}{}", self.text).into(), ..self }
    }

    /// With `text` behind it.
    pub fn then(self, text: impl fmt::Display) -> Advice {
        Advice { text: format!("{}{text}", self.text).into(), ..self }
    }
}

impl fmt::Display for Advice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)?;
        match &self.by {
            CarriedOutBy::Plan(knob) => write!(out, " ({})", knob.planned_by()),
            CarriedOutBy::Left(_, reason) => write!(out, " (in no plan here: {reason})"),
            CarriedOutBy::Hand(_) => Ok(()),
        }
    }
}
