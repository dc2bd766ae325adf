//! What requests carry. Whatever is wrong with it comes back as a [`Problem`](nw_api::rest::Problem), as JSON.

use crate::asker::Refused;
use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::StatusCode;
use core::fmt;
use core::ops::RangeInclusive;
use serde::de::{DeserializeOwned, Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// A JSON body: an object, each field once. Numbers are numbers: 5.0 is 5, as JSON Schema has it.
pub struct Body<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Refused;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refused> {
        let Json(object) = Json::<Object>::from_request(request, state).await?;
        object.read().map(Body)
    }
}

/// Reads a body without its request, as [`Body`] does.
///
/// # Errors
/// 400 for what is no JSON object, 422 for one that is another.
pub fn read_body<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refused> {
    let object: Object =
        serde_json::from_slice(bytes).map_err(|error| Refused::new(400, error.to_string()))?;
    object.read()
}

/// A type's own deserializer would take an array for an object.
struct Object(Map<String, Value>);

impl Object {
    fn read<T: DeserializeOwned>(self) -> Result<T, Refused> {
        serde_json::from_value(Value::Object(self.0))
            .map_err(|error| Refused::new(422, format!("the body is not what this operation takes: {error}")))
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields)
    }
}

struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = Object;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Object, A::Error> {
        let mut fields = Map::new();
        while let Some((name, value)) = access.next_entry::<String, Value>()? {
            if fields.contains_key(&name) {
                return Err(A::Error::custom(format_args!("the field {name} stands twice")));
            }
            fields.insert(name, whole(value));
        }
        Ok(Object(fields))
    }
}

/// A whole number that was written with a fraction or an exponent, as an integer.
fn whole(value: Value) -> Value {
    const END: f64 = 18_446_744_073_709_551_616.0;
    match value.as_f64() {
        Some(number) if value.is_f64() && number.fract() == 0.0 && (0.0..END).contains(&number) => {
            Value::from(number as u64)
        }
        _ => value,
    }
}

/// A query.
#[derive(FromRequestParts)]
#[from_request(via(axum::extract::Query), rejection(Refused))]
pub struct Query<T>(pub T);

/// The variable part of a path.
#[derive(FromRequestParts)]
#[from_request(via(axum::extract::Path), rejection(Refused))]
pub struct Segment<T>(pub T);

/// A number of a request, within bounds.
pub fn within(what: &str, number: u64, bounds: RangeInclusive<u64>) -> Result<u64, Refused> {
    if bounds.contains(&number) {
        return Ok(number);
    }
    let (least, most) = (bounds.start(), bounds.end());
    Err(Refused::new(400, format!("{what} is {number}: a number from {least} to {most} is expected")))
}

/// A number of a body, at least 1.
pub fn at_least_one(what: &str, number: u64) -> Result<u64, Refused> {
    match number {
        0 => Err(Refused::new(422, format!("{what} is 0: a number from 1 is expected"))),
        number => Ok(number),
    }
}

fn refused(status: StatusCode, text: String) -> Refused {
    Refused::new(u64::from(status.as_u16()), text)
}

impl From<JsonRejection> for Refused {
    fn from(rejection: JsonRejection) -> Self {
        refused(rejection.status(), rejection.body_text())
    }
}

impl From<QueryRejection> for Refused {
    fn from(rejection: QueryRejection) -> Self {
        refused(rejection.status(), rejection.body_text())
    }
}

impl From<PathRejection> for Refused {
    fn from(rejection: PathRejection) -> Self {
        refused(rejection.status(), rejection.body_text())
    }
}
