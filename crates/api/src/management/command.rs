//! Parses the names of management Interests: commands, datasets, the notification stream.
//!
//! ```text
//! signed with packet format 0.3:
//!   /localhost/nfd/rib/register/<ControlParameters>/params-sha256=…
//! signed with packet format 0.2:
//!   /localhost/nfd/rib/register/<ControlParameters>/<timestamp>/<nonce>/<SigInfo>/<SigValue>
//! a prefix announcement in ApplicationParameters:
//!   /localhost/nfd/rib/announce/params-sha256=…
//! routes in ApplicationParameters (an extension of Namewire):
//!   /localhost/nfd/rib/import/params-sha256=…
//! datasets, and notifications:
//!   /localhost/nfd/faces/list[/params-sha256=…][/<version>[/<segment>]]
//!   /localhost/nfd/faces/query/<FaceQueryFilter>[…]
//!   /localhost/nfd/faces/events[/<sequence number>]
//! ```

use super::face::FaceQueryFilter;
use super::parameters::ControlParameters;
use nw_name::convention::Kind;
use nw_name::{Component, ComponentType, Name, NameRef};
use nw_wire::Interest;

/// The prefix of a management Interest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// `/localhost/nfd`, for local faces.
    Localhost,
    /// `/localhop/nfd`, for neighbours, with `rib` commands only.
    Localhop,
}

impl Root {
    /// Returns the prefix.
    pub fn name(self) -> Name {
        Name::new().with_generic(self.scope()).with_generic("nfd")
    }

    const fn scope(self) -> &'static str {
        match self {
            Root::Localhost => "localhost",
            Root::Localhop => "localhop",
        }
    }
}

/// Declares an enum of names with two components after the prefix: module and word.
macro_rules! verb_enum {
    ($(#[$meta:meta])* $name:ident {
        $($(#[$item_meta:meta])* $item:ident = $module:literal $word:literal,)+
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$item_meta])* $item,)+ }

        impl $name {
            /// All values.
            pub const ALL: &'static [$name] = &[$($name::$item,)+];

            /// Returns the first component after the prefix.
            pub const fn module(self) -> &'static str {
                match self { $($name::$item => $module,)+ }
            }

            /// Returns the second component after the prefix.
            pub const fn word(self) -> &'static str {
                match self { $($name::$item => $word,)+ }
            }

            /// Returns the value with these two components.
            pub fn from_words(module: &[u8], word: &[u8]) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| {
                    value.module().as_bytes() == module && value.word().as_bytes() == word
                })
            }

            /// Returns the name under a prefix.
            pub fn name(self, root: Root) -> Name {
                root.name().with_generic(self.module()).with_generic(self.word())
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, "{}/{}", self.module(), self.word())
            }
        }
    };
}

verb_enum! {
    /// A command.
    Verb {
        /// Create a face.
        FacesCreate = "faces" "create",
        /// Update a face.
        FacesUpdate = "faces" "update",
        /// Close a face.
        FacesDestroy = "faces" "destroy",
        /// Add a next hop without a route.
        FibAddNextHop = "fib" "add-nexthop",
        /// Remove a next hop.
        FibRemoveNextHop = "fib" "remove-nexthop",
        /// Add or change a route.
        RibRegister = "rib" "register",
        /// Remove a route.
        RibUnregister = "rib" "unregister",
        /// Add a route for a prefix announcement.
        RibAnnounce = "rib" "announce",
        /// Configure the content store.
        CsConfig = "cs" "config",
        /// Erase Data from the content store.
        CsErase = "cs" "erase",
        /// Set the strategy of a prefix.
        StrategyChoiceSet = "strategy-choice" "set",
        /// Remove the strategy choice of a prefix.
        StrategyChoiceUnset = "strategy-choice" "unset",
    }
}

verb_enum! {
    /// A dataset.
    Dataset {
        /// All faces.
        FacesList = "faces" "list",
        /// All listeners.
        FacesChannels = "faces" "channels",
        /// Faces that match a filter.
        FacesQuery = "faces" "query",
        /// The FIB.
        FibList = "fib" "list",
        /// The RIB.
        RibList = "rib" "list",
        /// State of the content store.
        CsInfo = "cs" "info",
        /// Strategy choices.
        StrategyChoiceList = "strategy-choice" "list",
        /// State and counters of the router.
        StatusGeneral = "status" "general",
        /// Dropped packets by reason. An extension of Namewire.
        StatusDrops = "status" "drops",
        /// Forwarding threads. An extension of Namewire.
        StatusShards = "status" "shards",
        /// Interfaces that use AF_XDP. An extension of Namewire.
        StatusXdp = "status" "xdp",
    }
}

impl Verb {
    /// Returns whether neighbours may send the command, to [`Root::Localhop`].
    pub const fn is_for_neighbours(self) -> bool {
        matches!(self, Verb::RibRegister | Verb::RibUnregister | Verb::RibAnnounce)
    }
}

/// The form of a command's signature. It is not verified here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureForm {
    /// Format 0.3: InterestSignatureInfo and a parameters digest.
    V03,
    /// Format 0.2: timestamp, nonce, SignatureInfo and SignatureValue as name components.
    V02,
    /// Not signed.
    Unsigned,
}

/// A parsed management Interest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// A command.
    Command {
        /// The command.
        verb: Verb,
        /// Its parameters.
        parameters: ControlParameters,
        /// The form of its signature.
        form: SignatureForm,
    },
    /// A prefix announcement in ApplicationParameters, not decoded yet.
    Announce {
        /// The encoded Data.
        announcement: &'a [u8],
    },
    /// A registration of many routes. An extension of Namewire.
    Import {
        /// Concatenated [`ControlParameters`] of `rib/register`, not decoded yet.
        routes: &'a [u8],
    },
    /// A request for a dataset.
    Dataset {
        /// The dataset.
        dataset: Dataset,
        /// The filter of [`Dataset::FacesQuery`]; empty for other datasets.
        filter: FaceQueryFilter,
        /// The name up to the version: the dataset's name, filter and parameters digest.
        prefix: NameRef<'a>,
        /// The requested version, if any.
        version: Option<u64>,
        /// The requested segment, if any.
        segment: Option<u64>,
    },
    /// A request for a face notification: that with a sequence number, or the next one.
    Events {
        /// The sequence number.
        sequence: Option<u64>,
    },
    /// The form of a command, but an unknown one.
    Unknown,
}

/// Parses the name of an Interest. `None` if management does not answer: another prefix, malformed
/// components, or parameters that can't be decoded ("bad parameters encoding: silence").
pub fn parse<'a>(interest: &Interest<'a>) -> Option<(Root, Request<'a>)> {
    let name = interest.name();
    let mut components = name.components();
    let root = match (components.next()?, components.next()?) {
        (scope, nfd) if nfd == Component::generic(b"nfd") => [Root::Localhost, Root::Localhop]
            .into_iter()
            .find(|root| scope == Component::generic(root.scope().as_bytes()))?,
        _ => return None,
    };
    let (module, word) = (generic(components.next()?)?, generic(components.next()?)?);
    if (module, word) == (b"faces", b"events") {
        let sequence = match components.next() {
            Some(component) => Some(Kind::Sequence.number(component)?),
            None => None,
        };
        return components.next().is_none().then_some((root, Request::Events { sequence }));
    }
    if let Some(dataset) = Dataset::from_words(module, word) {
        return Some((root, parse_dataset(dataset, name)?));
    }
    let verb = Verb::from_words(module, word);
    let import = (module, word) == IMPORT;
    if verb == Some(Verb::RibAnnounce) || import {
        let digest = components.next()?.typ() == ComponentType::PARAMETERS_DIGEST;
        let is_complete = digest && components.next().is_none();
        let parameters = interest.parameters()?;
        let request = match import {
            true => Request::Import { routes: parameters },
            false => Request::Announce { announcement: parameters },
        };
        return is_complete.then_some((root, request));
    }
    let parameters = ControlParameters::decode(generic(components.next()?)?).ok()?;
    let form = signature_form(interest, components)?;
    let request = match verb {
        Some(verb) => Request::Command { verb, parameters, form },
        None => Request::Unknown,
    };
    Some((root, request))
}

/// Module and word of [`Request::Import`].
pub(super) const IMPORT: (&[u8], &[u8]) = (b"rib", b"import");

/// Number of components of a dataset's name, without filter.
const DATASET_LEN: usize = 4;

fn parse_dataset<'a>(dataset: Dataset, name: NameRef<'a>) -> Option<Request<'a>> {
    let mut components = name.components().skip(DATASET_LEN).peekable();
    let mut prefix_len = DATASET_LEN;
    let mut filter = FaceQueryFilter::default();
    if dataset == Dataset::FacesQuery {
        filter = FaceQueryFilter::decode(generic(components.next()?)?).ok()?;
        prefix_len += 1;
    }
    // python-ndn's tools request datasets with signed Interests; the answer must have the longer
    // name.
    if components.next_if(|component| component.typ() == ComponentType::PARAMETERS_DIGEST).is_some()
    {
        prefix_len += 1;
    }
    let mut number =
        |kind: Kind| components.next().map(|component| kind.number(component).ok_or(()));
    let version = number(Kind::Version).transpose().ok()?;
    let segment = number(Kind::Segment).transpose().ok()?;
    let prefix = name.prefix(prefix_len);
    components.next().is_none().then_some(Request::Dataset {
        dataset,
        filter,
        prefix,
        version,
        segment,
    })
}

fn signature_form<'a>(
    interest: &Interest<'_>,
    mut components: impl Iterator<Item = Component<'a>>,
) -> Option<SignatureForm> {
    let Some(first) = components.next() else {
        return Some(SignatureForm::Unsigned);
    };
    if first.typ() == ComponentType::PARAMETERS_DIGEST {
        let form = if interest.signature_info().is_some() {
            SignatureForm::V03
        } else {
            SignatureForm::Unsigned
        };
        return components.next().is_none().then_some(form);
    }
    // Timestamp (`first`), nonce, SignatureInfo, SignatureValue. Their contents are checked when
    // the signature is verified.
    (components.count() == 3).then_some(SignatureForm::V02)
}

fn generic(component: Component<'_>) -> Option<&[u8]> {
    (component.typ() == ComponentType::GENERIC).then_some(component.value())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_wire::{DigestSha256, InterestBuilder};

    fn parse_uri(uri: &str) -> Option<(Root, String)> {
        let wire = InterestBuilder::new(uri.parse::<Name>().unwrap()).encode();
        let parsed = parse(&Interest::check(&wire).unwrap());
        parsed.map(|(root, request)| (root, format!("{request:?}")))
    }

    #[test]
    fn every_word_finds_itself() {
        for verb in Verb::ALL {
            assert_eq!(
                Verb::from_words(verb.module().as_bytes(), verb.word().as_bytes()),
                Some(*verb)
            );
        }
        for dataset in Dataset::ALL {
            let name = dataset.name(Root::Localhost).to_string();
            assert_eq!(name, format!("/localhost/nfd/{dataset}"));
            assert_eq!(parse_uri(&name).is_some(), *dataset != Dataset::FacesQuery, "{name}");
        }
    }

    #[test]
    fn both_forms_and_none() {
        let parameters = ControlParameters::of("/a".parse::<Name>().unwrap());
        let name = Verb::RibRegister.name(Root::Localhop).with_generic(parameters.encode());
        let form = |wire: Vec<u8>| match parse(&Interest::check(&wire).unwrap()) {
            Some((
                Root::Localhop,
                Request::Command { verb: Verb::RibRegister, parameters: read, form },
            )) => {
                assert_eq!(read, parameters);
                Some(form)
            }
            None => None,
            other => panic!("{other:?}"),
        };
        assert_eq!(
            form(InterestBuilder::new(name.clone()).encode()),
            Some(SignatureForm::Unsigned)
        );
        let Ok(signed) = InterestBuilder::new(name.clone()).encode_signed(&DigestSha256, &[]);
        assert_eq!(form(signed), Some(SignatureForm::V03));
        // An RSA SignatureValue is a component of 260 bytes.
        let parts: [&[u8]; 4] = [&[1; 8], &[2; 8], &[22, 3, 27, 1, 1], &[23; 260]];
        let old = parts.iter().fold(name.clone(), |name, part| name.with_generic(part));
        assert_eq!(form(InterestBuilder::new(old.clone()).encode()), Some(SignatureForm::V02));
        assert_eq!(form(InterestBuilder::new(old.with_generic("more")).encode()), None);
        assert_eq!(form(InterestBuilder::new(name.with_generic("odd")).encode()), None);
    }

    #[test]
    fn parse_reads_versions_and_segments_of_datasets() {
        let digest =
            "params-sha256=00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff";
        let base = "/localhost/nfd/rib/list";
        assert!(
            parse_uri(&format!("{base}/v=5"))
                .unwrap()
                .1
                .contains("version: Some(5), segment: None")
        );
        assert!(
            parse_uri(&format!("{base}/v=5/seg=2"))
                .unwrap()
                .1
                .contains("version: Some(5), segment: Some(2)")
        );
        assert!(
            parse_uri(&format!("{base}/%FD%05/%00%02"))
                .unwrap()
                .1
                .contains("version: Some(5), segment: Some(2)")
        );
        for odd in ["x", "seg=1", "v=5/x", "v=5/seg=1/x"] {
            assert_eq!(parse_uri(&format!("{base}/{odd}")), None, "{odd}");
        }
        assert_eq!(
            parse_uri("/localhost/nfd/faces/query/%96%01"),
            None,
            "a filter that can't be decoded"
        );
        // A signed request as of python-ndn's tools.
        let wire = InterestBuilder::new(base.parse::<Name>().unwrap()).parameters([]).encode();
        let interest = Interest::check(&wire).unwrap();
        let Some((Root::Localhost, Request::Dataset { prefix, .. })) = parse(&interest) else {
            panic!()
        };
        assert_eq!(prefix, interest.name());
        assert!(digest.len() > 64 && prefix.len() == 5);
    }

    #[test]
    fn parse_ignores_other_names() {
        for uri in [
            "/",
            "/localhost",
            "/localhost/nfd",
            "/localhost/nfd/rib",
            "/localhost/nfd/rib/register",
            "/localhost/nfd/rib/register/x",
            "/localhost/nfd/rib/announce/x",
            "/localhost/other/rib/list",
            "/ndn/nfd/rib/list",
            "/localhost/nfd/faces/events/x",
            "/localhost/nfd/faces/events/seq=1/x",
            "/localhost/nfd/32=rib/list",
        ] {
            if uri != "/" {
                assert_eq!(parse_uri(uri), None, "{uri}");
            }
        }
        assert!(parse_uri("/localhost/nfd/faces/events").unwrap().1.contains("sequence: None"));
        assert!(
            parse_uri("/localhost/nfd/faces/events/seq=7").unwrap().1.contains("sequence: Some(7)")
        );
        assert_eq!(parse_uri("/localhost/nfd/rib/dance/h%00").unwrap().1, "Unknown");
    }
}
