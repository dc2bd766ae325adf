//! Requests in short form, for the tests.

use nw_pubsub::names::{parse_name, parse_pattern};
use nw_pubsub::{Effect, Rendezvous, Request, ReturnCode, Timestamp};
use nw_wire::publication::{Id, Label, Operation, RequestFlags};

/// Returns the label of a client or node by its number.
pub fn client(number: u64) -> Label {
    Label::from_number(0x3030_3030_3030_3030 + number)
}

/// Returns a request. The last component of `name` is the thing, the others are its scope.
pub fn request(operation: Operation, from: u64, name: &str) -> Request {
    let (id, covered) = parse_pattern(name).expect(name);
    let (last, above) = id.labels().split_last().map_or((None, &[][..]), |(l, a)| (Some(*l), a));
    Request {
        number: 0,
        client: client(from),
        operation,
        strategy: None,
        flags: if covered.subtree { RequestFlags::SUBTREE } else { RequestFlags::default() },
        strength: 0,
        wildcards: covered.wildcards,
        id: Id::new(last.into_iter().collect()),
        prefix: Id::from(above),
        name: name.to_owned(),
    }
}

/// Returns a request to publish an existing thing under another scope.
pub fn republish(operation: Operation, from: u64, name: &str, under: &str) -> Request {
    let mut request = request(operation, from, name);
    request.id = parse_name(name).expect(name);
    request.prefix = parse_name(under).expect(under);
    request
}

/// Returns the code of the reply, and checks that it is the first effect and the only reply.
pub fn code(effects: &[Effect]) -> ReturnCode {
    let replies = effects.iter().filter(|effect| matches!(effect, Effect::Reply(_))).count();
    assert_eq!(replies, 1, "each request has one reply");
    let Some(Effect::Reply(reply)) = effects.first() else { panic!("the reply comes first") };
    ReturnCode::from_number(reply.code).expect("a known code")
}

/// Handles a request that must succeed, and returns the effects after the reply.
pub fn run(rendezvous: &mut Rendezvous, request: &Request) -> Vec<Effect> {
    let effects = rendezvous.handle(request, Timestamp::START);
    assert_eq!(code(&effects), ReturnCode::Success, "{request:?}");
    effects[1..].to_vec()
}
