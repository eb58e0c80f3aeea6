// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ethernet frames of one type on one interface, past the network stack; and a network that only its user
//! sees.
//!
//! Nothing here waits: a reader polls. What this machine sends on the interface is not received again
//! (PACKET_IGNORE_OUTGOING, since Linux 4.20), but by a socket that is open to all. References: packet(7),
//! network_namespaces(7).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::{Error, Result};

/// A raw socket on one interface for frames of one type.
///
/// ```
/// use rt::packet::{PacketSocket, own_network};
///
/// // Needs CAP_SYS_ADMIN and CAP_NET_RAW. Interface 1 of a new network is its loopback.
/// match own_network().and_then(|()| PacketSocket::open("lo", 1, 0x88a4)) {
///     Ok(socket) => {
///         let mut frame = [0; 1514];
///         while let Ok(Some(length)) = socket.receive(&mut frame) {
///             println!("{:02x?}", &frame[..length]);
///         }
///     }
///     Err(error) => println!("{error}"),
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct PacketSocket {
    socket: OwnedFd,
}

impl PacketSocket {
    /// Opens it on the interface with that number; `name` is for errors.
    ///
    /// ```
    /// use rt::packet::{PacketSocket, own_network};
    ///
    /// // Needs CAP_SYS_ADMIN and CAP_NET_RAW. Interface 1 of a new network is its loopback.
    /// match own_network().and_then(|()| PacketSocket::open("lo", 1, 0x88a4)) {
    ///     Ok(socket) => {
    ///         println!("{socket:?}");
    ///     }
    ///     Err(error) => println!("{error}"),
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn open(name: &str, number: u32, frame_type: u16) -> Result<PacketSocket> {
        let refused = |error: &io::Error| cannot_open(name, error);
        if frame_type == 0 {
            return Err(Error::new(
                format!("open a raw socket on {name}"),
                "0 is no type of frames",
                "report this as a defect",
            ));
        }
        let socket = PacketSocket::closed().map_err(|error| refused(&error))?;
        socket.ignore_outgoing().map_err(|error| refused(&error))?;
        socket.bind(number, frame_type).map_err(|error| refused(&error))?;
        Ok(socket)
    }

    /// Opens one for frames of all types, which also receives what this machine's other sockets send there.
    ///
    /// ```
    /// use rt::packet::{PacketSocket, own_network};
    ///
    /// // Needs CAP_SYS_ADMIN and CAP_NET_RAW. Interface 1 of a new network is its loopback.
    /// match own_network().and_then(|()| PacketSocket::open_to_all("lo", 1)) {
    ///     Ok(socket) => {
    ///         println!("{socket:?}");
    ///     }
    ///     Err(error) => println!("{error}"),
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn open_to_all(name: &str, number: u32) -> Result<PacketSocket> {
        let bound = PacketSocket::closed()
            .and_then(|socket| socket.bind(number, libc::ETH_P_ALL as u16).map(|()| socket));
        bound.map_err(|error| cannot_open(name, &error))
    }

    /// A socket that receives nothing until it is bound, so that no frame of another interface gets in.
    fn closed() -> io::Result<PacketSocket> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        Ok(PacketSocket { socket: socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)? })
    }

    fn ignore_outgoing(&self) -> io::Result<()> {
        let on: libc::c_int = 1;
        // SAFETY: the descriptor is open, and `on` is a c_int that outlives the call, with its size.
        let status = unsafe {
            libc::setsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_IGNORE_OUTGOING,
                std::ptr::from_ref(&on).cast(),
                size_of_val(&on) as libc::socklen_t,
            )
        };
        if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    fn bind(&self, number: u32, frame_type: u16) -> io::Result<()> {
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as libc::c_ushort,
            sll_protocol: frame_type.to_be(),
            sll_ifindex: number as libc::c_int,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        // SAFETY: the descriptor is open, and `address` is a whole sockaddr_ll that outlives the call, with
        // its size.
        let status = unsafe {
            libc::bind(
                self.socket.as_raw_fd(),
                std::ptr::from_ref(&address).cast(),
                size_of_val(&address) as libc::socklen_t,
            )
        };
        if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Sends a whole frame; how many bytes of it went out.
    ///
    /// ```
    /// use rt::packet::{PacketSocket, own_network};
    ///
    /// // Needs CAP_SYS_ADMIN and CAP_NET_RAW. Interface 1 of a new network is its loopback.
    /// match own_network().and_then(|()| PacketSocket::open("lo", 1, 0x88a4)) {
    ///     Ok(socket) => {
    ///         // It is down: nothing goes out.
    ///         assert!(socket.send(&[0; 60]).is_err());
    ///     }
    ///     Err(error) => println!("{error}"),
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[inline]
    pub fn send(&self, frame: &[u8]) -> io::Result<usize> {
        Ok(send(&self.socket, frame, SendFlags::empty())?)
    }

    /// Takes the next frame, if one has come: its length.
    ///
    /// ```
    /// use rt::packet::{PacketSocket, own_network};
    ///
    /// // Needs CAP_SYS_ADMIN and CAP_NET_RAW. Interface 1 of a new network is its loopback.
    /// match own_network().and_then(|()| PacketSocket::open("lo", 1, 0x88a4)) {
    ///     Ok(socket) => {
    ///         // It is down, which the first read says; nothing comes.
    ///         assert!(!matches!(socket.receive(&mut [0; 1514]), Ok(Some(_))));
    ///     }
    ///     Err(error) => println!("{error}"),
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[inline]
    pub fn receive(&self, frame: &mut [u8]) -> io::Result<Option<usize>> {
        match recv(&self.socket, frame, RecvFlags::empty()) {
            Ok((length, _)) => Ok(Some(length)),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

fn cannot_open(name: &str, error: &io::Error) -> Error {
    Error::os(format!("open a raw socket on {name}"), error, "run as root, or grant CAP_NET_RAW")
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Moves the calling thread, and what it starts from now on, into a new network namespace that has no name.
/// It is gone with the last thread, process and socket in it, however they end.
///
/// ```
/// // Of this thread alone.
/// let alone = std::thread::spawn(|| {
///     rt::packet::own_network()?;
///     // A socket that is opened here reaches no other machine.
///     Ok::<(), rt::Error>(())
/// });
/// if let Err(error) = alone.join().unwrap() {
///     println!("{error}");
/// }
/// ```
pub fn own_network() -> Result<()> {
    // SAFETY: NEWNET alone shares no descriptors and no memory anew: it only changes which network later
    // calls see.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.map_err(|error| {
        Error::os(
            "make a network namespace",
            &error.into(),
            "run as root, or grant CAP_SYS_ADMIN; the kernel needs CONFIG_NET_NS",
        )
    })
}
