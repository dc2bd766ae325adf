//! Routes of the self-learning strategy: created from announcements that neighbours attach to Data,
//! removed when the next hop returns a Nack with reason NoRoute.

use super::announcement::Announcement;
use super::rib::Route;
use super::table_commands::ANNOUNCED_COST;
use super::{
    Authorize, COMPONENTS_MAX, Control, Environment, Ingress, Verdict, is_reserved, log_refusal,
};
use nw_api::management::{flags, origin};
use nw_name::{Component, NameRef};
use nw_tables::Timestamp;
use nw_trust::Clocks;

/// Longest lifetime of a learned route in milliseconds, as in NFD. Discovery finds the route again.
const LIFETIME_MAX_MS: u64 = 600_000;

impl Control {
    /// Creates a route from an announcement that a neighbour attached to Data, the reply to a
    /// discovery Interest. Returns whether the route is in effect; `false` if the announcement is
    /// malformed, expired or not authorised.
    pub fn learn(
        &mut self,
        now: Timestamp,
        ingress: Ingress,
        wire: &[u8],
        authority: &mut dyn Authorize,
        env: &mut dyn Environment,
    ) -> bool {
        let announcement = match Announcement::check(wire) {
            Ok(announcement) => announcement,
            Err(reason) => {
                tracing::debug!(face = %ingress.face, %reason, "announcement not learned");
                return false;
            }
        };
        let prefix = announcement.prefix;
        let is_localhost = prefix.component(0) == Some(Component::generic(b"localhost"));
        let clocks = Clocks { elapsed_ms: now.as_millis(), unix_ms: env.unix_ms() };
        let lifetime_ms =
            announcement.lifetime_ms(clocks.unix_ms).map(|ms| ms.min(LIFETIME_MAX_MS));
        let Some(lifetime_ms) = lifetime_ms
            .filter(|_| prefix.len() <= COMPONENTS_MAX && !is_reserved(prefix) && !is_localhost)
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
        let result = self.put_route(prefix, ingress.face, origin::PREFIX_ANNOUNCEMENT, route, env);
        if result.is_ok() {
            tracing::debug!(face = %ingress.face, %prefix, "route learned");
            env.store_announcement(prefix, wire, expires);
        }
        log_refusal("a learned route", result.clone());
        result.is_ok()
    }

    /// Removes the longest learned route that covers `name` and leads to the ingress face, after
    /// that face received a Nack with reason NoRoute. Routes with other origins stay. Returns
    /// whether there was such a route.
    pub fn unlearn(
        &mut self,
        now: Timestamp,
        ingress: Ingress,
        name: NameRef<'_>,
        env: &mut dyn Environment,
    ) -> bool {
        let lens = (0..=name.len().min(COMPONENTS_MAX)).rev();
        let face = ingress.face;
        let prefix = lens.map(|len| name.prefix(len)).find(|prefix| {
            self.rib.unregister(*prefix, face, origin::PREFIX_ANNOUNCEMENT).is_some()
        });
        let Some(prefix) = prefix else { return false };
        tracing::debug!(%face, %prefix, "learned route removed after a Nack");
        env.store_announcement(prefix, &[], now);
        log_refusal("removal of a learned route", self.commit(env));
        true
    }
}
