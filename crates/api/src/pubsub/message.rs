//! Messages between an application and its node, bodies of the frames of
//! `nw_faces::local_pubsub::FrameSocket`. All numbers are little-endian; a text has a length of
//! two bytes before it.
//!
//! ```text
//! application                                              node
//!   Hello (file: reader page) ──────────────────────────▶
//!                             ◀────────────────────────── Welcome
//!   Ring (file: ring) ──────────────────────────────────▶           publishers, once
//!   Publish, Subscribe … ───────────────────────────────▶
//!                             ◀────────────────────────── Reply
//!                             ◀────────────────────────── Source (file: ring), Item, ItemEnd, …
//!                             ◀────────────────────────── Reader (file: page), ReaderEnd
//!                             ◀────────────────────────── ItemReader, ItemReaderEnd
//! ```

use super::name::ItemName;
use core::fmt;
use nw_pubsub::strategy::{PublisherChoice, Strategy};

/// Version of these messages.
pub const VERSION: u16 = 2;
/// Payload bytes of a [`Fragment`] in a message at most.
pub const FRAGMENT_BYTES_MAX: usize = 256 << 10;
/// Bytes of a text in a message at most.
const TEXT_BYTES_MAX: usize = u16::MAX as usize;
/// Bytes of JSON in one [`Event::Answer`].
pub const ANSWER_BYTES_MAX: usize = 512 << 10;

/// Error: a message is not laid out as it must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageFault;

impl fmt::Display for MessageFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message of publish/subscribe has an invalid length or content")
    }
}

impl std::error::Error for MessageFault {}

/// Outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Reply {
    /// Done.
    Done = 0,
    /// The name or pattern is invalid.
    InvalidName = 1,
    /// The number or name is in use by this application.
    Exists = 2,
    /// There is no such item or subscription.
    Missing = 3,
    /// A rule forbids it.
    Forbidden = 4,
    /// A limit is reached.
    Full = 5,
    /// The request is not known, or not possible now.
    Unknown = 6,
    /// The scope has another strategy, or would be below itself.
    Mismatch = 7,
}

impl Reply {
    /// Returns the reply with a number; unknown ones are [`Reply::Unknown`].
    pub const fn from_code(code: u16) -> Self {
        match code {
            0 => Reply::Done,
            1 => Reply::InvalidName,
            2 => Reply::Exists,
            3 => Reply::Missing,
            4 => Reply::Forbidden,
            5 => Reply::Full,
            7 => Reply::Mismatch,
            _ => Reply::Unknown,
        }
    }
}

/// A publication, or a part of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fragment {
    /// Sequence number of the publication.
    pub sequence: u64,
    /// Payload bytes of the whole publication.
    pub total_bytes: u64,
    /// Payload bytes before this part.
    pub offset: u64,
    /// The bytes.
    pub payload: Vec<u8>,
}

impl Fragment {
    /// Returns whether this part ends the publication.
    pub fn is_last(&self) -> bool {
        self.offset + self.payload.len() as u64 == self.total_bytes
    }

    /// Divides a publication into parts.
    pub fn parts(sequence: u64, payload: &[u8]) -> impl Iterator<Item = Fragment> {
        let total_bytes = payload.len() as u64;
        let count = payload.len().div_ceil(FRAGMENT_BYTES_MAX).max(1);
        (0..count).map(move |index| {
            let start = index * FRAGMENT_BYTES_MAX;
            let end = payload.len().min(start + FRAGMENT_BYTES_MAX);
            let payload = payload[start..end].to_vec();
            Fragment { sequence, total_bytes, offset: start as u64, payload }
        })
    }
}

/// What becomes of an item's publications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemOptions {
    /// Whether late subscribers get the last publication.
    pub keeps_last: bool,
    /// Which nodes they reach. `None`: the strategy of the item's scope, or else
    /// [`Strategy::Domain`].
    pub strategy: Option<Strategy>,
    /// Which of several publishers of the item serve a subscriber. `None`: as other publishers of
    /// the item have chosen, or else [`PublisherChoice::All`].
    pub choice: Option<PublisherChoice>,
    /// Strength of this publisher, for [`PublisherChoice::Strongest`].
    pub strength: u32,
}

impl Default for ItemOptions {
    fn default() -> Self {
        ItemOptions { keeps_last: true, strategy: None, choice: None, strength: 0 }
    }
}

/// Choices of publishers by their code in messages.
const CHOICES: [Option<PublisherChoice>; 4] = [
    None,
    Some(PublisherChoice::All),
    Some(PublisherChoice::Nearest),
    Some(PublisherChoice::Strongest),
];

/// Strategies by their code in messages; `None` is that of the scope.
const STRATEGIES: [Option<Strategy>; 6] = [
    Some(Strategy::Domain),
    Some(Strategy::NodeLocal),
    Some(Strategy::LinkLocal),
    Some(Strategy::Broadcast),
    None,
    Some(Strategy::Implicit),
];

/// Where the publications of an item go that has the strategy [`Strategy::Implicit`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ImplicitRoute {
    /// To no other node.
    #[default]
    Nowhere,
    /// To the nodes that subscribe to this name.
    Like(ItemName),
    /// Along a given forwarding identifier.
    Path(ForwardingPath),
}

/// A forwarding identifier: the links that a packet takes, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardingPath {
    /// Table that the identifiers of its links are from.
    pub table: u8,
    /// Most links in a row.
    pub hop_limit: u8,
    /// The bits.
    pub bits: [u8; 32],
}

/// As `nw pubsub trace` shows it: 68 hexadecimal digits.
impl fmt::Display for ForwardingPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02x}{:02x}", self.table, self.hop_limit)?;
        self.bits.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl core::str::FromStr for ForwardingPath {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FAULT: &str = "a forwarding identifier has 68 hexadecimal digits: `nw pubsub trace` \
                             shows those of an item";
        let is_hex = text.len() == 68 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let byte = |at: usize| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap_or(0);
        match is_hex {
            true => Ok(ForwardingPath {
                table: byte(0),
                hop_limit: byte(1),
                bits: core::array::from_fn(|at| byte(at + 2)),
            }),
            false => Err(FAULT),
        }
    }
}

/// Declares an enumeration of messages: kind, fields in their order.
macro_rules! messages {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$variant_doc:meta])* $variant:ident = $kind:literal {
            $($(#[$field_doc:meta])* $field:ident: $typ:ty),* $(,)?
        })+
    }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$variant_doc])* $variant { $($(#[$field_doc])* $field: $typ),* }),+
        }

        impl $name {
            /// Returns the number of this kind of message.
            pub const fn kind(&self) -> u8 {
                match self { $($name::$variant { .. } => $kind),+ }
            }

            /// Returns the body.
            pub fn encode(&self) -> Vec<u8> {
                let mut bytes = Vec::new();
                match self {
                    $($name::$variant { $($field),* } => { $($field.put(&mut bytes);)* })+
                }
                bytes
            }

            /// Reads a body.
            ///
            /// # Errors
            /// If the kind is unknown, or the body is too short or too long.
            pub fn decode(kind: u8, body: &[u8]) -> Result<Self, MessageFault> {
                let mut rest = body;
                let message = match kind {
                    $($kind => $name::$variant { $($field: Field::take(&mut rest)?),* },)+
                    _ => return Err(MessageFault),
                };
                if rest.is_empty() { Ok(message) } else { Err(MessageFault) }
            }
        }
    };
}

messages! {
    /// From an application to its node.
    Request {
        /// The first message. The file is the reader page; without one, publications come in
        /// messages.
        Hello = 1 {
            /// [`VERSION`] of the application.
            version: u16,
            /// Name of the program, for the status.
            program: String,
        }
        /// Offers the ring that this application will write; its file comes with it.
        Ring = 2 {
            /// Bytes of the ring.
            bytes: u32,
            /// Entries of its table of items.
            items: u32,
        }
        /// Announces an item.
        Publish = 3 {
            /// Number of the request, for the reply.
            request: u32,
            /// Number of the item, below the ring's number of items.
            item: u32,
            /// What becomes of its publications.
            options: ItemOptions,
            /// Name of the item.
            name: String,
        }
        /// Withdraws an item.
        Unpublish = 4 {
            /// Number of the request.
            request: u32,
            /// Number of the item.
            item: u32,
        }
        /// Subscribes to a pattern of names.
        Subscribe = 5 {
            /// Number of the request.
            request: u32,
            /// Number of the subscription.
            subscription: u32,
            /// Whether the last publication of each item is wanted first.
            wants_last: bool,
            /// The pattern.
            pattern: String,
        }
        /// Ends a subscription.
        Unsubscribe = 6 {
            /// Number of the request.
            request: u32,
            /// Number of the subscription.
            subscription: u32,
        }
        /// A publication of an application without a ring.
        Data = 7 {
            /// Number of the item.
            item: u32,
            /// The publication, or a part.
            fragment: Fragment,
        }
        /// The node's reader page said that the node waits.
        Wake = 8 {}
        /// Asks for a status.
        Query = 9 {
            /// Number of the request.
            request: u32,
            /// `status`, `graph`, or `trace` and a name.
            topic: String,
        }
        /// Subscribes to a pattern, from earlier publications on.
        SubscribeHistory = 10 {
            /// Number of the request.
            request: u32,
            /// Number of the subscription.
            subscription: u32,
            /// Publications of each item that are wanted first, as far as its ring has them.
            history: u32,
            /// The pattern.
            pattern: String,
        }
        /// Asks for events about publishers and subscribers whose names match a pattern.
        Watch = 11 {
            /// Number of the request.
            request: u32,
            /// The pattern.
            pattern: String,
        }
        /// Subscribes to a pattern, which other nodes are not told.
        SubscribeHere = 12 {
            /// Number of the request.
            request: u32,
            /// Number of the subscription.
            subscription: u32,
            /// Publications of each item that are wanted first, as far as its ring has them.
            history: u32,
            /// The pattern.
            pattern: String,
        }
        /// Publishes a scope: items and scopes below it have its strategy.
        PublishScope = 13 {
            /// Number of the request.
            request: u32,
            /// Which nodes publications reach; `None`: as for the scope above.
            strategy: Option<Strategy>,
            /// Name of the scope.
            name: String,
        }
        /// Ends this application's publication of a scope, and the parents it gave it.
        UnpublishScope = 14 {
            /// Number of the request.
            request: u32,
            /// Name of the scope.
            name: String,
        }
        /// Publishes an existing scope or item under a further scope.
        AddParent = 15 {
            /// Number of the request.
            request: u32,
            /// Name of the scope or item.
            name: String,
            /// Name of the further scope.
            parent: String,
        }
        /// Ends what [`Request::AddParent`] did; other parents stay.
        RemoveParent = 16 {
            /// Number of the request.
            request: u32,
            /// Name of the scope or item.
            name: String,
            /// Name of the further scope.
            parent: String,
        }
        /// Sets where the publications of an item with the strategy implicit go.
        Route = 17 {
            /// Number of the request.
            request: u32,
            /// Number of the item.
            item: u32,
            /// Other nodes that they reach.
            route: ImplicitRoute,
        }
    }
}

messages! {
    /// From a node to an application.
    Event {
        /// Reply to [`Request::Hello`].
        Welcome = 1 {
            /// [`VERSION`] of the node.
            version: u16,
            /// Number of the connection.
            session: u64,
            /// Largest ring that the node accepts, bytes.
            ring_bytes_max: u32,
            /// Most items of the application.
            items_max: u32,
        }
        /// Reply to a request.
        Reply = 2 {
            /// Number of the request.
            request: u32,
            /// [`Reply`] as a number.
            code: u16,
            /// What to do next, for a person; empty if done.
            text: String,
        }
        /// A publisher's ring to read; its file comes with it.
        Source = 3 {
            /// Number of the source, and of the slot in the reader page.
            source: u32,
            /// Bytes of the ring.
            bytes: u32,
            /// Entries of its table of items.
            items: u32,
        }
        /// An item of a source that a subscription matches.
        Item = 4 {
            /// Number of the source; 2^32 - 1 if publications come in messages.
            source: u32,
            /// Number of the item.
            item: u32,
            /// Position in the ring from which on the item is read.
            position: u64,
            /// Sequence number of the last publication before the subscription.
            after: u64,
            /// Whether that last publication is wanted.
            reads_last: bool,
            /// Name of the item.
            name: String,
        }
        /// An item of a source has ended, or no subscription matches it.
        ItemEnd = 5 {
            /// Number of the source.
            source: u32,
            /// Number of the item.
            item: u32,
            /// Sequence number of its last publication.
            last: u64,
        }
        /// A source has ended. One without items goes on until it ends, for the next item of it.
        SourceEnd = 6 {
            /// Number of the source.
            source: u32,
        }
        /// A reader of this application's ring; its page comes with it.
        Reader = 7 {
            /// Number of the reader.
            reader: u32,
            /// Slot of this ring in the page.
            slot: u32,
        }
        /// A reader has ended.
        ReaderEnd = 8 {
            /// Number of the reader.
            reader: u32,
        }
        /// Number of subscribers of an item of this application.
        Subscribers = 9 {
            /// Number of the item.
            item: u32,
            /// Applications of this node, and other nodes.
            count: u32,
        }
        /// A publication by message: to an application without shared memory, or of a publisher
        /// that has ended.
        Data = 10 {
            /// Number of the item.
            item: u32,
            /// Whether the publication is older than the subscription.
            is_last_value: bool,
            /// The publication, or a part.
            fragment: Fragment,
        }
        /// Publications that this application did not take in time.
        Lost = 11 {
            /// Number of the item.
            item: u32,
            /// How many.
            count: u64,
        }
        /// Part of an answer, as JSON.
        Answer = 12 {
            /// Number of the request.
            request: u32,
            /// Whether it is the last part.
            is_last: bool,
            /// The text of this part.
            json: Blob,
        }
        /// A publisher or subscriber that is here, or is no longer.
        Presence = 13 {
            /// Whether it is a publisher.
            is_publisher: bool,
            /// Whether it is here.
            is_here: bool,
            /// Identifier of its node; 0 for this node.
            node: u64,
            /// Number of its connection; 0 for other nodes.
            session: u64,
            /// Name of the item, or pattern of the subscription.
            name: String,
            /// Its program, in its own words; empty for other nodes.
            program: String,
        }
        /// A reader of this application's ring reads an item. A reader of no item is not waited
        /// for and not woken; it stays known until [`Event::ReaderEnd`].
        ItemReader = 14 {
            /// Number of the item.
            item: u32,
            /// Number of the reader.
            reader: u32,
            /// Sequence number of the last publication that it does not wait for.
            after: u64,
        }
        /// A reader does not read an item any more.
        ItemReaderEnd = 15 {
            /// Number of the item.
            item: u32,
            /// Number of the reader.
            reader: u32,
        }
    }
}

/// Bytes with a length of four bytes before them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob(pub Vec<u8>);

/// A type of fields.
trait Field: Sized {
    fn put(&self, bytes: &mut Vec<u8>);
    fn take(bytes: &mut &[u8]) -> Result<Self, MessageFault>;
}

fn split<'a>(bytes: &mut &'a [u8], len: usize) -> Result<&'a [u8], MessageFault> {
    let (taken, rest) = bytes.split_at_checked(len).ok_or(MessageFault)?;
    *bytes = rest;
    Ok(taken)
}

macro_rules! number_fields {
    ($($typ:ty),+) => {
        $(impl Field for $typ {
            fn put(&self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }

            fn take(bytes: &mut &[u8]) -> Result<Self, MessageFault> {
                let taken = split(bytes, size_of::<$typ>())?;
                Ok(<$typ>::from_le_bytes(core::array::from_fn(|at| taken[at])))
            }
        })+
    };
}

number_fields!(u16, u32, u64);

impl Field for bool {
    fn put(&self, bytes: &mut Vec<u8>) {
        bytes.push(u8::from(*self));
    }

    fn take(bytes: &mut &[u8]) -> Result<Self, MessageFault> {
        match split(bytes, 1)? {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(MessageFault),
        }
    }
}

fn strategy_code(strategy: Option<Strategy>) -> u8 {
    STRATEGIES.iter().position(|known| *known == strategy).unwrap_or(0) as u8
}

fn strategy_of_code(code: u8) -> Result<Option<Strategy>, MessageFault> {
    STRATEGIES.get(usize::from(code)).copied().ok_or(MessageFault)
}

/// One byte: bit 0 is `keeps_last`, bits 1 to 3 are the strategy, bits 4 and 5 the choice of
/// publishers; with bit 6 the strength follows.
impl Field for ItemOptions {
    fn put(&self, bytes: &mut Vec<u8>) {
        let choice = CHOICES.iter().position(|known| *known == self.choice).unwrap_or(0) as u8;
        let has_strength = u8::from(self.strength != 0);
        let strategy = strategy_code(self.strategy);
        bytes.push(u8::from(self.keeps_last) | strategy << 1 | choice << 4 | has_strength << 6);
        if self.strength != 0 {
            self.strength.put(bytes);
        }
    }

    fn take(bytes: &mut &[u8]) -> Result<Self, MessageFault> {
        let byte = split(bytes, 1)?[0];
        if byte >> 7 != 0 {
            return Err(MessageFault);
        }
        Ok(ItemOptions {
            keeps_last: byte & 1 == 1,
            strategy: strategy_of_code(byte >> 1 & 7)?,
            choice: CHOICES[usize::from(byte >> 4 & 3)],
            strength: if byte >> 6 & 1 == 1 { u32::take(bytes)? } else { 0 },
        })
    }
}

impl Field for Option<Strategy> {
    fn put(&self, bytes: &mut Vec<u8>) {
        bytes.push(strategy_code(*self));
    }

    fn take(bytes: &mut &[u8]) -> Result<Self, MessageFault> {
        strategy_of_code(split(bytes, 1)?[0])
    }
}

/// One byte: 0 nowhere, 1 a name, 2 a forwarding identifier; then its bytes.
impl Field for ImplicitRoute {
    fn put(&self, bytes: &mut Vec<u8>) {
        match self {
            ImplicitRoute::Nowhere => bytes.push(0),
            ImplicitRoute::Like(name) => {
                bytes.push(1);
                name.to_string().put(bytes);
            }
            ImplicitRoute::Path(path) => {
                bytes.extend_from_slice(&[2, path.table, path.hop_limit]);
                bytes.extend_from_slice(&path.bits);
            }
        }
    }

    fn take(bytes: &mut &[u8]) -> Result<Self, MessageFault> {
        match split(bytes, 1)?[0] {
            0 => Ok(ImplicitRoute::Nowhere),
            1 => String::take(bytes)?.parse().map(ImplicitRoute::Like).map_err(|_| MessageFault),
            2 => {
                let taken = split(bytes, 34)?;
                let bits = core::array::from_fn(|at| taken[at + 2]);
                let (table, hop_limit) = (taken[0], taken[1]);
                Ok(ImplicitRoute::Path(ForwardingPath { table, hop_limit, bits }))
            }
            _ => Err(MessageFault),
        }
    }
}

impl Field for String {
    fn put(&self, bytes: &mut Vec<u8>) {
        let end = self.floor_char_boundary(TEXT_BYTES_MAX);
        (end as u16).put(bytes);
        bytes.extend_from_slice(&self.as_bytes()[..end]);
    }

    fn take(bytes: &mut &[u8]) -> Result<Self, MessageFault> {
        let len = u16::take(bytes)?;
        let text = split(bytes, usize::from(len))?;
        core::str::from_utf8(text).map(str::to_owned).map_err(|_| MessageFault)
    }
}

impl Field for Blob {
    fn put(&self, bytes: &mut Vec<u8>) {
        (self.0.len() as u32).put(bytes);
        bytes.extend_from_slice(&self.0);
    }

    fn take(bytes: &mut &[u8]) -> Result<Self, MessageFault> {
        let len = u32::take(bytes)?;
        split(bytes, len as usize).map(|bytes| Blob(bytes.to_vec()))
    }
}

impl Field for Fragment {
    fn put(&self, bytes: &mut Vec<u8>) {
        self.sequence.put(bytes);
        self.total_bytes.put(bytes);
        self.offset.put(bytes);
        (self.payload.len() as u32).put(bytes);
        bytes.extend_from_slice(&self.payload);
    }

    fn take(bytes: &mut &[u8]) -> Result<Self, MessageFault> {
        let (sequence, total_bytes) = (u64::take(bytes)?, u64::take(bytes)?);
        let offset = u64::take(bytes)?;
        let len = u32::take(bytes)? as usize;
        let payload = split(bytes, len)?.to_vec();
        let end = offset.checked_add(len as u64).ok_or(MessageFault)?;
        if end > total_bytes || len > FRAGMENT_BYTES_MAX || len == 0 && total_bytes > 0 {
            return Err(MessageFault);
        }
        Ok(Fragment { sequence, total_bytes, offset, payload })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_encoding() {
        let fragment = Fragment { sequence: 7, total_bytes: 3, offset: 0, payload: vec![1, 2, 3] };
        let events = [
            Event::Welcome { version: 1, session: 9, ring_bytes_max: 5, items_max: 6 },
            Event::Reply { request: 1, code: 4, text: "no".into() },
            Event::Data { item: 3, is_last_value: true, fragment: fragment.clone() },
            Event::Answer { request: 1, is_last: true, json: Blob(b"{}".to_vec()) },
            Event::Item {
                source: 1,
                item: 2,
                position: 64,
                after: 5,
                reads_last: false,
                name: "/a".into(),
            },
        ];
        for event in events {
            assert_eq!(Event::decode(event.kind(), &event.encode()), Ok(event));
        }
        let request = Request::Data { item: 1, fragment };
        assert_eq!(Request::decode(7, &request.encode()), Ok(request));
        let path = ForwardingPath { table: 3, hop_limit: 2, bits: [0xa5; 32] };
        assert_eq!(path.to_string().parse(), Ok(path));
        assert!("03".parse::<ForwardingPath>().is_err());
        assert!("é".repeat(34).parse::<ForwardingPath>().is_err());
        let like = ImplicitRoute::Like("/a".parse().unwrap());
        for route in [ImplicitRoute::Nowhere, like, ImplicitRoute::Path(path)] {
            let request = Request::Route { request: 1, item: 2, route };
            let body = request.encode();
            assert!((0..body.len()).all(|end| Request::decode(17, &body[..end]).is_err()));
            assert_eq!(Request::decode(17, &body), Ok(request));
        }
        for (strategy, choice) in STRATEGIES.into_iter().flat_map(|s| CHOICES.map(|c| (s, c))) {
            for strength in [0, u32::MAX] {
                let options = ItemOptions { keeps_last: false, strategy, choice, strength };
                let request = Request::Publish { request: 1, item: 2, options, name: "/a".into() };
                assert_eq!(Request::decode(3, &request.encode()), Ok(request));
            }
        }
        for byte in [12, 128] {
            let mut unknown = vec![0; 8];
            unknown.extend([byte, 2, 0, b'/', b'a']);
            assert_eq!(Request::decode(3, &unknown), Err(MessageFault), "a code without a meaning");
        }
    }

    #[test]
    fn truncated_and_extended_bodies_are_refused() {
        let request = Request::Subscribe {
            request: 1,
            subscription: 2,
            wants_last: true,
            pattern: "/a/**".into(),
        };
        let body = request.encode();
        for end in 0..body.len() {
            assert_eq!(Request::decode(5, &body[..end]), Err(MessageFault));
        }
        assert_eq!(Request::decode(5, &[&body[..], &[0]].concat()), Err(MessageFault));
        assert_eq!(Request::decode(0, &[]), Err(MessageFault));
        let lying = Fragment { total_bytes: 1, payload: vec![0; 2], ..Fragment::default() };
        assert!(Request::decode(7, &Request::Data { item: 1, fragment: lying }.encode()).is_err());
    }

    #[test]
    fn parts_cover_a_publication() {
        for len in [0, 1, FRAGMENT_BYTES_MAX, FRAGMENT_BYTES_MAX + 1] {
            let payload = vec![1; len];
            let parts: Vec<_> = Fragment::parts(1, &payload).collect();
            assert_eq!(parts.iter().map(|part| part.payload.len()).sum::<usize>(), len);
            assert!(parts.iter().rev().skip(1).all(|part| !part.is_last()));
            assert!(parts.last().unwrap().is_last());
        }
    }
}
