// SPDX-License-Identifier: MIT OR Apache-2.0
//! iceoryx2's publish and subscribe within one process, polled, as its own benchmark does it: a sample is
//! loaned ahead, before it is needed. It is written in place and read in place; the other rings copy.

use std::error::Error;
use std::mem::MaybeUninit;
use std::sync::Arc;

use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::*;
use iceoryx2::sample_mut_uninit::SampleMutUninit;
use iceoryx2::service::port_factory::publish_subscribe::PortFactory;

use super::contender::Contender;
use super::ends::{Message, RingEnds, SLOTS, Sends, Takes};

type Way = Arc<PortFactory<local::Service, [u8], ()>>;

struct Posts {
    publisher: Publisher<local::Service, [u8], ()>,
    loaned: Option<SampleMutUninit<local::Service, [MaybeUninit<u8>], ()>>,
}

struct Polls(Subscriber<local::Service, [u8], ()>);

/// Both ways, each a service of its own.
pub fn contender<M: Message>() -> Result<Contender, Box<dyn Error>> {
    set_log_level(LogLevel::Error);
    let node = NodeBuilder::new().create::<local::Service>()?;
    let way = |name: &str| -> Result<Way, Box<dyn Error>> {
        let name = format!("isolator-bench/{}/{name}", M::BYTES);
        let service = node.service_builder(&ServiceName::new(&name)?).publish_subscribe::<[u8]>();
        let service = service.max_publishers(1).max_subscribers(1).history_size(0);
        let line = Alignment::new(64).ok_or("64 is no alignment")?;
        let service =
            service.subscriber_max_buffer_size(SLOTS).enable_safe_overflow(false).payload_alignment(line);
        Ok(Arc::new(service.create()?))
    };
    let (there, back) = (way("there")?, way("back")?);
    let side = |out: &Way, into: &Way| {
        let (out, into) = (Arc::clone(out), Arc::clone(into));
        // Its ports stay on the thread that made them.
        move || {
            let publisher = out.publisher_builder().backpressure_strategy(BackpressureStrategy::DiscardData);
            let publisher = publisher.initial_max_slice_len(M::BYTES).create();
            let publisher = publisher.expect("a publisher of a service that has none");
            let subscriber =
                into.subscriber_builder().create().expect("a subscriber of a service that has none");
            let loaned = publisher.loan_slice_uninit(M::BYTES).ok();
            RingEnds::<_, _, M>::new(Posts { publisher, loaned }, Polls(subscriber))
        }
    };
    Ok(Contender::new::<M, _>("iceoryx2", side(&there, &back), side(&back, &there)))
}

impl<M: Message> Sends<M> for Posts {
    #[inline(always)]
    fn post(&mut self, message: &M) -> bool {
        let Some(sample) = self.loaned.take() else {
            self.loaned = self.publisher.loan_slice_uninit(M::BYTES).ok();
            return false;
        };
        let sent = sample.write_from_slice(message.bytes()).send();
        self.loaned = self.publisher.loan_slice_uninit(M::BYTES).ok();
        sent.is_ok_and(|receivers| receivers == 1)
    }
}

impl<M: Message> Takes<M> for Polls {
    #[inline(always)]
    fn take(&mut self, look: impl FnOnce(&[u8])) -> bool {
        let Ok(Some(sample)) = self.0.receive() else { return false };
        look(sample.payload());
        true
    }
}
