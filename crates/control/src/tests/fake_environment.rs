//! A router made of maps, and an authority with fixed verdicts.

use crate::*;
use nw_api::management::{
    ChannelStatus, CsInfo, DropCount, FacePersistency, FaceScope, ForwarderStatus, flags,
};
use nw_tables::cs::EraseCursor;
use nw_tables::fib::{NextHop, StrategyId};
use nw_wire::Data;

pub(crate) const STRATEGIES: [&str; 3] = [
    "/localhost/nfd/strategy/best-route/v=5",
    "/localhost/nfd/strategy/multicast/v=5",
    "/localhost/nfd/strategy/multicast/v=5/retx-suppression-max~50",
];

pub(crate) struct FakeEnvironment {
    pub(crate) faces: BTreeMap<FaceId, FaceStatus>,
    pub(crate) fib: BTreeMap<Name, (Vec<NextHop>, StrategyId)>,
    pub(crate) fib_max: usize,
    pub(crate) fib_changes: usize,
    pub(crate) sent: Vec<(Vec<u8>, Token)>,
    pub(crate) sent_interests: Vec<(Vec<u8>, Option<FaceId>)>,
    pub(crate) cs: CsInfo,
    /// Results of creating a face by URI. A face with any other URI is created at once.
    pub(crate) creations: BTreeMap<String, FaceCreation>,
    pub(crate) operations: Vec<(OperationId, String)>,
    pub(crate) destroyed: Vec<u64>,
    pub(crate) cancelled: Vec<OperationId>,
    pub(crate) announcements: BTreeMap<Name, (Vec<u8>, Timestamp)>,
    /// Time of the wall clock.
    pub(crate) unix_ms: u64,
    last_face: u64,
}

impl FakeEnvironment {
    pub(crate) fn new() -> Self {
        let mut faces = BTreeMap::new();
        for (number, uri, scope) in [
            (1, "internal://", FaceScope::Local),
            (300, "fd://20", FaceScope::Local),
            (301, "udp4://192.0.2.1:6363", FaceScope::NonLocal),
        ] {
            faces.insert(
                FaceId::from_number(number).unwrap(),
                FaceStatus::new(number, uri, "internal://", scope),
            );
        }
        let cs = CsInfo {
            capacity: 100,
            flags: flags::CS_ADMIT | flags::CS_SERVE,
            entries: 300,
            hits: 1,
            misses: 2,
        };
        FakeEnvironment {
            faces,
            fib: BTreeMap::new(),
            fib_max: 50_000,
            fib_changes: 0,
            sent: Vec::new(),
            sent_interests: Vec::new(),
            cs,
            creations: BTreeMap::new(),
            operations: Vec::new(),
            destroyed: Vec::new(),
            cancelled: Vec::new(),
            announcements: BTreeMap::new(),
            unix_ms: 1_795_221_001_000,
            last_face: 400,
        }
    }

    pub(crate) fn add_face(&mut self, uri: &str) -> FaceId {
        self.last_face += 1;
        let id = FaceId::from_number(self.last_face).unwrap();
        let mut status =
            FaceStatus::new(self.last_face, uri, "udp4://192.0.2.9:6363", FaceScope::NonLocal);
        status.mtu = Some(8800);
        status.base_congestion_marking_interval = Some(100_000_000);
        status.default_congestion_threshold = Some(65_536);
        self.faces.insert(id, status);
        id
    }
}

impl Environment for FakeEnvironment {
    fn unix_ms(&self) -> u64 {
        self.unix_ms
    }

    fn create_face(&mut self, operation: OperationId, request: &FaceRequest<'_>) -> FaceCreation {
        self.operations.push((operation, request.uri.to_owned()));
        if let Some(created) = self.creations.get(request.uri) {
            return created.clone();
        }
        if let Some(existing) = self.faces.values().find(|face| face.uri == request.uri) {
            return FaceCreation::Exists(FaceId::from_number(existing.face_id).unwrap());
        }
        let id = self.add_face(request.uri);
        let status = self.faces.get_mut(&id).unwrap();
        status.persistency = request.persistency;
        status.flags = request.options.flags & request.options.mask;
        status.mtu = request.options.mtu.or(status.mtu);
        FaceCreation::Created(id)
    }

    fn cancel_face(&mut self, operation: OperationId) {
        self.cancelled.push(operation);
    }

    fn update_face(&mut self, face: FaceId, change: &FaceChange) -> Result<(), UpdateRefusal> {
        let status = self.faces.get_mut(&face).expect("called only for existing faces");
        if change.mask & change.flags & flags::LOCAL_FIELDS != 0
            && status.scope == FaceScope::NonLocal
        {
            let text = "local fields are for faces of this machine".to_owned();
            return Err(UpdateRefusal {
                flags: flags::LOCAL_FIELDS,
                text,
                ..UpdateRefusal::default()
            });
        }
        status.flags = (status.flags & !change.mask) | (change.flags & change.mask);
        status.persistency = change.persistency.unwrap_or(status.persistency);
        status.mtu = change.mtu.or(status.mtu);
        Ok(())
    }

    fn destroy_face(&mut self, face: FaceId) {
        self.destroyed.push(face.number());
    }

    fn face_status(&self, face: FaceId) -> Option<FaceStatus> {
        self.faces.get(&face).cloned()
    }

    fn has_face(&self, face: FaceId) -> bool {
        self.faces.contains_key(&face)
    }

    fn face_ids(&self) -> Vec<FaceId> {
        self.faces.keys().copied().collect()
    }

    fn channels(&self) -> Vec<ChannelStatus> {
        vec![ChannelStatus { local_uri: "unix:///run/nfd/nfd.sock".to_owned() }]
    }

    fn apply_fib(&mut self, changes: &[FibChange<'_>]) -> Result<(), FibRefusal> {
        for (index, change) in changes.iter().enumerate() {
            match change {
                FibChange::Set { name, next_hops, strategy } => {
                    if !self.fib.contains_key(name.as_bytes()) && self.fib.len() >= self.fib_max {
                        return Err(FibRefusal { index, text: "the FIB is full".to_owned() });
                    }
                    self.fib.insert(name.to_name(), (next_hops.to_vec(), *strategy));
                }
                FibChange::Remove { name } => drop(self.fib.remove(name.as_bytes())),
            }
            self.fib_changes += 1;
        }
        Ok(())
    }

    fn resolve_strategy(&mut self, name: NameRef<'_>) -> Result<(StrategyId, Name), Refusal> {
        if name.to_string().contains('~') && !name.to_string().ends_with("max~50") {
            return Err(Refusal::new(409, "bad parameter"));
        }
        let index = STRATEGIES
            .iter()
            .position(|known| name.is_prefix_of(constant_name(known).as_ref()) && name.len() > 3);
        let index = index.ok_or_else(|| Refusal::new(404, "no such strategy"))?;
        Ok((StrategyId(index as u8), constant_name(STRATEGIES[index])))
    }

    fn store_announcement(&mut self, prefix: NameRef<'_>, announcement: &[u8], until: Timestamp) {
        self.announcements.insert(prefix.to_name(), (announcement.to_vec(), until));
    }

    fn cs_config(&mut self, capacity: Option<u64>, admit: Option<bool>, serve: Option<bool>) {
        self.cs.capacity = capacity.unwrap_or(self.cs.capacity).min(1000);
        for (flag, value) in [(flags::CS_ADMIT, admit), (flags::CS_SERVE, serve)] {
            match value {
                Some(true) => self.cs.flags |= flag,
                Some(false) => self.cs.flags &= !flag,
                None => {}
            }
        }
    }

    /// Erases at most 100 packets per call.
    fn cs_erase(&mut self, _: NameRef<'_>, erasing: &mut EraseCursor) -> bool {
        let erased = (erasing.limit - erasing.erased).min(self.cs.entries as usize).min(100);
        self.cs.entries -= erased as u64;
        erasing.erased += erased;
        erasing.has_more = self.cs.entries > 0;
        !erasing.has_more || erasing.erased == erasing.limit
    }

    fn cs_info(&self) -> CsInfo {
        self.cs.clone()
    }

    fn forwarder_status(&self) -> ForwarderStatus {
        ForwarderStatus {
            start_timestamp: 1_795_221_000_000,
            current_timestamp: self.unix_ms,
            in_interests: 5,
            pit_entries: 7,
            ..ForwarderStatus::default()
        }
    }

    fn drops(&self) -> Vec<DropCount> {
        vec![DropCount { reason: "no_route".to_owned(), count: 9 }]
    }

    fn send_data(&mut self, data: &[u8], token: Token) {
        self.sent.push((data.to_vec(), token));
    }

    fn send_interest(&mut self, interest: &[u8], next_hop: Option<FaceId>) {
        self.sent_interests.push((interest.to_vec(), next_hop));
    }
}

/// Returns the verdicts it is set to.
pub(crate) struct FakeAuthority {
    pub(crate) commands: Verdict,
    pub(crate) announcements: Verdict,
}

impl Default for FakeAuthority {
    fn default() -> Self {
        FakeAuthority { commands: Verdict::Accept, announcements: Verdict::Accept }
    }
}

impl Authorize for FakeAuthority {
    fn command(
        &mut self,
        _: Clocks,
        _: &Interest<'_>,
        _: Ingress,
        module: &str,
        verb: &str,
        prefix: Option<NameRef<'_>>,
    ) -> Verdict {
        assert!(!module.is_empty() && !verb.is_empty());
        let has_no_prefix = module == "faces" || (module, verb) == ("cs", "config");
        assert_eq!(prefix.is_none(), has_no_prefix, "{module}/{verb}");
        self.commands.clone()
    }

    fn learned(&mut self, _: Clocks, _: &Data<'_>, prefix: NameRef<'_>, _: Ingress) -> Verdict {
        assert!(!prefix.to_string().contains("32=PA"));
        self.announcements.clone()
    }

    fn announcement(
        &mut self,
        _: Clocks,
        _: &Data<'_>,
        prefix: NameRef<'_>,
        _: Ingress,
        _: &Interest<'_>,
    ) -> Verdict {
        assert!(!prefix.to_string().contains("32=PA"));
        self.announcements.clone()
    }
}

/// Number of the persistency "permanent".
pub(crate) const PERMANENT: u64 = FacePersistency::Permanent.number();
