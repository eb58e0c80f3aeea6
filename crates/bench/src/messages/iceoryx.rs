// SPDX-License-Identifier: MIT OR Apache-2.0
//! iceoryx2's publish and subscribe within one process, polled, as its own benchmark does it: a sample is
//! loaned ahead, before it is needed. It is written in place and read in place; the other rings copy.

use std::error::Error;
use std::sync::Arc;

use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::*;
use iceoryx2::sample_mut_uninit::SampleMutUninit;
use iceoryx2::service::port_factory::publish_subscribe::PortFactory;
use std::mem::MaybeUninit;

use super::Contender;
use super::ends::{BYTES, Ends, Message, SLOTS, Sends, Takes};

type Payload = [u8; BYTES];
type Way = Arc<PortFactory<local::Service, Payload, ()>>;

struct Posts {
    publisher: Publisher<local::Service, Payload, ()>,
    loaned: Option<SampleMutUninit<local::Service, MaybeUninit<Payload>, ()>>,
}

struct Polls(Subscriber<local::Service, Payload, ()>);

/// Both ways, each a service of its own.
pub fn contender() -> Result<Contender, Box<dyn Error>> {
    set_log_level(LogLevel::Error);
    let node = NodeBuilder::new().create::<local::Service>()?;
    let way = |name: &str| -> Result<Way, Box<dyn Error>> {
        let service = node.service_builder(&ServiceName::new(name)?).publish_subscribe::<Payload>();
        let service = service.max_publishers(1).max_subscribers(1).history_size(0);
        let line = Alignment::new(64).ok_or("64 is no alignment")?;
        let service =
            service.subscriber_max_buffer_size(SLOTS).enable_safe_overflow(false).payload_alignment(line);
        Ok(Arc::new(service.create()?))
    };
    let (there, back) = (way("isolator-bench/there")?, way("isolator-bench/back")?);
    let side = |out: &Way, into: &Way| {
        let (out, into) = (Arc::clone(out), Arc::clone(into));
        // Its ports stay on the thread that made them.
        move || {
            let publisher = out.publisher_builder().backpressure_strategy(BackpressureStrategy::DiscardData);
            let publisher = publisher.create().expect("a publisher of a service that has none");
            let subscriber =
                into.subscriber_builder().create().expect("a subscriber of a service that has none");
            let loaned = publisher.loan_uninit().ok();
            Ends(Posts { publisher, loaned }, Polls(subscriber))
        }
    };
    Ok(Contender::new("iceoryx2", side(&there, &back), side(&back, &there)))
}

impl Sends for Posts {
    #[inline(always)]
    fn post(&mut self, message: &Message) -> bool {
        let Some(sample) = self.loaned.take() else {
            self.loaned = self.publisher.loan_uninit().ok();
            return false;
        };
        let sent = sample.write_payload(message.0).send();
        self.loaned = self.publisher.loan_uninit().ok();
        sent.is_ok_and(|receivers| receivers == 1)
    }
}

impl Takes for Polls {
    #[inline(always)]
    fn take(&mut self, look: impl FnOnce(&[u8; BYTES])) -> bool {
        let Ok(Some(sample)) = self.0.receive() else { return false };
        look(sample.payload());
        true
    }
}
