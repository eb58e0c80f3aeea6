// SPDX-License-Identifier: MIT OR Apache-2.0
//! Advice on disturbances: one table for the audit, the planner, the preflight and `isolator why`.
//!
//! Each advice is automatic, and names the setting of a plan that carries it out, or [`Manual`], with the
//! reason. A [`SettingId`] is a setting that at least one of them advises; its value, its form and its place
//! on the plan are decided here alone, so that an advice cannot differ from the plan of the same machine and
//! profile.

use std::borrow::Cow;
use std::fmt;

mod setting_id;
mod so;
#[cfg(test)]
mod tests;

pub use setting_id::{Aim, SettingId, WhyNot};

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
    Plan(SettingId),
    /// A user: the plan leaves this setting, for this reason.
    Left(SettingId, Cow<'static, str>),
    /// A user: it is no setting that a plan could have.
    Manual(Manual),
}

/// Manual advice: the kinds that a plan cannot carry out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manual {
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
    by: CarriedOutBy::Manual(Manual::Program),
};
/// Time that the firmware takes.
pub const FIRMWARE: Advice = Advice {
    text: Cow::Borrowed(
        "in the firmware's menu: USB legacy support, error logging and power capping off, fan control by hardware; update it",
    ),
    by: CarriedOutBy::Manual(Manual::Firmware),
};
/// Time that a hypervisor takes.
pub const PIN_GUEST: Advice = Advice {
    text: Cow::Borrowed("on the host: pin each virtual CPU to an isolated CPU"),
    by: CarriedOutBy::Manual(Manual::Host),
};

/// A clock of which the hypervisor disposes.
pub const STABLE_CLOCK: Advice = Advice {
    text: Cow::Borrowed("let the host offer an invariant TSC (-cpu host,+invtsc)"),
    by: CarriedOutBy::Manual(Manual::Host),
};

impl Manual {
    /// All of them.
    pub const ALL: [Manual; 12] = [
        Manual::Search,
        Manual::Program,
        Manual::Kernel,
        Manual::BootLine,
        Manual::Loader,
        Manual::Firmware,
        Manual::Board,
        Manual::Host,
        Manual::Container,
        Manual::Network,
        Manual::Service,
        Manual::Session,
    ];

    /// Why no plan does it.
    pub fn reason(self) -> &'static str {
        match self {
            Manual::Search => "it changes nothing on the machine",
            Manual::Program => "the program itself has to do it",
            Manual::Kernel => "another kernel has to be installed and booted",
            Manual::BootLine => "a plan adds to the boot line, and leaves what others wrote there",
            Manual::Loader => {
                "a plan writes the boot line, and no entry, default or initial RAM disk of others"
            }
            Manual::Firmware => "only the firmware or the hardware can be changed for it",
            Manual::Board => "the board's own tools keep its power mode and clocks",
            Manual::Host => "the host decides it",
            Manual::Container => "a container's rights are given where it is started",
            Manual::Network => "which interface serves the program is not known",
            Manual::Service => "a plan stops no service and unloads no driver of others",
            Manual::Session => "which users get the rights is not for a plan to say",
        }
    }

    /// The advice `text`.
    pub fn advice(self, text: impl Into<Cow<'static, str>>) -> Advice {
        Advice { text: text.into(), by: CarriedOutBy::Manual(self) }
    }
}

impl Advice {
    /// Advice that a plan carries out as a whole, `text` in words: isolating CPUs.
    pub fn plan(text: impl Into<Cow<'static, str>>) -> Advice {
        Advice { text: text.into(), by: CarriedOutBy::Plan(SettingId::Isolcpus) }
    }

    /// The way to carry it out.
    pub fn by(&self) -> &CarriedOutBy {
        &self.by
    }

    /// Why no plan carries it out, where none does.
    pub fn why_no_plan(&self) -> Option<&str> {
        match &self.by {
            CarriedOutBy::Plan(_) => None,
            CarriedOutBy::Left(_, reason) => Some(reason),
            CarriedOutBy::Manual(manual) => Some(manual.reason()),
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
            CarriedOutBy::Plan(setting) => write!(out, " ({})", setting.planned_by()),
            CarriedOutBy::Left(_, reason) => write!(out, " (in no plan here: {reason})"),
            CarriedOutBy::Manual(_) => Ok(()),
        }
    }
}
