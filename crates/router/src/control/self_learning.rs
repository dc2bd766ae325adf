//! Routes that self-learning finds: made from announcements that came with Data, gone when a next hop says that there is no route.

use super::announcement::Announcement;
use super::rib::Route;
use super::table_commands::ANNOUNCED_COST;
use super::{Authorize, COMPONENTS_MAX, Control, Environment, Ingress, Verdict, is_reserved, log_refusal};
use nw_api::management::{flags, origin};
use nw_name::{Component, NameRef};
use nw_tables::Instant;
use nw_trust::Clocks;

/// Longest life of a learnt route, milliseconds, as the reference has it; discovery finds it again.
const LIFETIME_MAX_MS: u64 = 600_000;

impl Control {
    /// A neighbour's Data came with this announcement, in answer to a discovery Interest: a route to it, if its signer may say so. True when there
    /// is one now.
    pub fn learn(
        &mut self,
        now: Instant,
        ingress: Ingress,
        wire: &[u8],
        authority: &mut dyn Authorize,
        env: &mut dyn Environment,
    ) -> bool {
        let announcement = match Announcement::check(wire) {
            Ok(announcement) => announcement,
            Err(why) => {
                tracing::debug!(face = %ingress.face, %why, "announcement not learnt");
                return false;
            }
        };
        let prefix = announcement.prefix;
        let local = prefix.component(0) == Some(Component::generic(b"localhost"));
        let clocks = Clocks { elapsed_ms: now.as_millis(), unix_ms: env.unix_ms() };
        let lifetime_ms = announcement.lifetime_ms(clocks.unix_ms).map(|ms| ms.min(LIFETIME_MAX_MS));
        let Some(lifetime_ms) =
            lifetime_ms.filter(|_| prefix.len() <= COMPONENTS_MAX && !is_reserved(prefix) && !local)
        else {
            return false;
        };
        if authority.learned(clocks, &announcement.data, prefix, ingress) != Verdict::Accept
            || !env.has_face(ingress.face)
        {
            return false;
        }
        let expires = now.plus_millis(lifetime_ms);
        let route = Route { cost: ANNOUNCED_COST, flags: flags::CHILD_INHERIT, expires };
        let done = self.put_route(prefix, ingress.face, origin::PREFIX_ANNOUNCEMENT, route, env);
        if done.is_ok() {
            tracing::debug!(face = %ingress.face, %prefix, "route learnt");
            env.keep_announcement(prefix, wire, expires);
        }
        log_refusal("a learnt route", done.clone());
        done.is_ok()
    }

    /// A next hop has no route for a name: the learnt route by which it was asked ends. Routes made otherwise stay. True when there was one.
    pub fn unlearn(
        &mut self,
        now: Instant,
        ingress: Ingress,
        name: NameRef<'_>,
        env: &mut dyn Environment,
    ) -> bool {
        let lens = (0..=name.len().min(COMPONENTS_MAX)).rev();
        let face = ingress.face;
        let prefix = lens
            .map(|len| name.prefix(len))
            .find(|prefix| self.rib.unregister(*prefix, face, origin::PREFIX_ANNOUNCEMENT).is_some());
        let Some(prefix) = prefix else { return false };
        tracing::debug!(%face, %prefix, "learnt route ended by a Nack");
        env.keep_announcement(prefix, &[], now);
        log_refusal("a learnt route that ended", self.commit(env));
        true
    }
}
