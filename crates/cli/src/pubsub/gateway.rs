//! `nw pubsub gateway`: answers Interests below a prefix with publications.

use super::args::GatewayArgs;
use crate::connect::{Registration, connect_with_retry};
use crate::exit::Status;
use crate::output::{count, json_line};
use crate::signals::StopFlag;
use crate::signing::{self, DataSigner};
use anyhow::{Context, Result};
use core::time::Duration;
use nw_api::pubsub::ScopePattern;
use nw_app::pubsub::{
    Action, Gateway, GatewayCounters, GatewayOptions, PubSubError, Received, Subscriber,
};
use nw_app::{Client, ClientError};
use nw_element_api::{Kind, LinkFields};
use nw_wire::NackReason;
use serde_json::json;
use std::collections::BTreeMap;
use std::process::ExitCode;

/// Longest wait for Interests while publications may arrive.
const BUSY_SLICE: Duration = Duration::from_millis(2);
/// Longest wait for Interests otherwise.
const IDLE_SLICE: Duration = Duration::from_millis(100);
/// Publications taken before Interests are looked at again.
const PUBLICATIONS_PER_STEP: usize = 1024;

/// The gateway and its two connections.
struct Session<'a> {
    gateway: Gateway<&'a DataSigner>,
    client: Client,
    subscriber: Subscriber,
    subscriptions: BTreeMap<ScopePattern, u32>,
}

/// Runs `nw pubsub gateway` until Ctrl-C.
pub fn serve(args: &GatewayArgs) -> Result<ExitCode> {
    let stop = StopFlag::watch()?;
    let options = GatewayOptions {
        freshness_ms: args.freshness,
        lease_ms: args.lease,
        publications_max: args.keep,
        ..GatewayOptions::default()
    };
    let signer = signing::signer(&args.signing)?;
    let subscriber = Subscriber::connect(&args.node.options()?)?;
    let mut client = connect_with_retry(&args.node.router, args.serve.no_reconnect)?;
    client.stop_when(stop.flag());
    let mut registration = Registration::new(
        &mut client,
        signer.commander(&args.node.router)?,
        Some(args.prefix.clone()),
        signer.key_name(),
        &args.serve,
    )?;
    let mut gateway = Gateway::new(args.prefix.clone(), options, &signer);
    args.patterns.iter().for_each(|pattern| gateway.follow(pattern.clone()));
    let subscriptions = BTreeMap::new();
    let mut session = Session { gateway, client, subscriber, subscriptions };
    session.carry_out()?;
    if args.json {
        json_line(&json!({ "event": "ready", "prefix": args.prefix.to_string() }))?;
    } else if !args.quiet {
        note!("serving publications as {}; Ctrl-C ends it", args.prefix);
    }
    let result = session.run(&signer, &mut registration, args);
    report(session.gateway.counters(), args)?;
    match result {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) if matches!(error.downcast_ref(), Some(ClientError::Interrupted)) => {
            Ok(Status::Done.into())
        }
        Err(error) => Err(error).context("no longer serving"),
    }
}

fn report(counters: GatewayCounters, args: &GatewayArgs) -> Result<()> {
    let GatewayCounters { interests, data, expired, refused, publications } = counters;
    if args.json {
        json_line(&json!({
            "event": "end", "interests": interests, "data": data, "expired": expired,
            "refused": refused, "publications": publications,
        }))?;
    } else if !args.quiet {
        let publications = count(publications, "publication");
        note!("{publications}, {}, {data} Data sent", count(interests, "Interest"));
    }
    Ok(())
}

impl Session<'_> {
    fn run(
        &mut self,
        signer: &DataSigner,
        registration: &mut Registration<'_>,
        args: &GatewayArgs,
    ) -> Result<()> {
        loop {
            let slice = if self.gateway.is_subscribed() { BUSY_SLICE } else { IDLE_SLICE };
            let gateway = &mut self.gateway;
            self.client.poll(Some(slice), |now, received, out| {
                if received.kind() == Kind::Interest && !signer.answer(&received, out) {
                    gateway.on_interest(now, received.wire, received.token());
                }
            })?;
            self.carry_out()?;
            self.take_publications()?;
            self.gateway.tick(self.client.now());
            self.carry_out()?;
            registration.update(&mut self.client)?.report(args.json, args.quiet)?;
        }
    }

    fn take_publications(&mut self) -> Result<()> {
        for _ in 0..PUBLICATIONS_PER_STEP {
            match self.subscriber.receive(Duration::ZERO)? {
                Received::Publication { name, sequence, payload, .. } => {
                    self.gateway.on_publication(name, sequence, payload);
                }
                Received::Lost { name, lost } => {
                    tracing::warn!(name, lost, "the gateway was too slow");
                }
                Received::Nothing => break,
            }
        }
        Ok(())
    }

    /// Does what the gateway asks for.
    fn carry_out(&mut self) -> Result<()> {
        let mut actions = self.gateway.take_actions();
        while !actions.is_empty() {
            for action in actions {
                self.act(action)?;
            }
            // A refused subscription has further actions.
            actions = self.gateway.take_actions();
        }
        Ok(())
    }

    fn act(&mut self, action: Action) -> Result<()> {
        match action {
            Action::Data(token, packet) => {
                self.client.send_with(&packet, LinkFields { token, ..LinkFields::default() });
            }
            Action::Nack(token, interest) => {
                let nack = Some(NackReason::NoRoute);
                self.client
                    .send_with(&interest, LinkFields { token, nack, ..LinkFields::default() });
            }
            Action::Subscribe(pattern) => match self.subscriber.subscribe(&pattern, true) {
                Ok(number) => {
                    self.subscriptions.insert(pattern, number);
                }
                Err(error @ PubSubError::Refused { .. }) => {
                    tracing::warn!(%pattern, %error, "no subscription");
                    self.gateway.refuse(&pattern);
                }
                Err(error) => return Err(error.into()),
            },
            Action::Unsubscribe(pattern) => {
                if let Some(number) = self.subscriptions.remove(&pattern) {
                    self.subscriber.unsubscribe(number)?;
                }
            }
        }
        Ok(())
    }
}
