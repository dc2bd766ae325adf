//! Extracts bodies, queries and path segments of requests. Every error is returned as a JSON
//! [`Problem`](nw_api::rest::Problem).

use crate::api_error::ApiError;
use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::StatusCode;
use core::fmt;
use core::ops::RangeInclusive;
use serde::de::{DeserializeOwned, Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// A JSON body: an object with unique fields. As in JSON Schema, 5.0 is the integer 5.
pub struct Body<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let Json(object) = Json::<Object>::from_request(request, state).await?;
        object.read().map(Body)
    }
}

/// Parses a body as [`Body`] does, without a request.
///
/// # Errors
/// 400 if the bytes are not a JSON object, 422 if the object does not have the fields of `T`.
pub fn read_body<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    let object: Object =
        serde_json::from_slice(bytes).map_err(|error| ApiError::new(400, error.to_string()))?;
    object.read()
}

/// A JSON object. Needed as a type's own deserializer would accept an array instead.
struct Object(Map<String, Value>);

impl Object {
    fn read<T: DeserializeOwned>(self) -> Result<T, ApiError> {
        serde_json::from_value(Value::Object(self.0)).map_err(|error| {
            ApiError::new(422, format!("the body is not valid for this operation: {error}"))
        })
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
                return Err(A::Error::custom(format_args!("the field {name} occurs twice")));
            }
            fields.insert(name, to_integer(value));
        }
        Ok(Object(fields))
    }
}

/// Converts whole numbers with a fraction or an exponent to integers.
fn to_integer(value: Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.into_iter().map(to_integer).collect()),
        Value::Object(fields) => {
            let converted = fields.into_iter().map(|(name, value)| (name, to_integer(value)));
            Value::Object(converted.collect())
        }
        number => to_integer_number(number),
    }
}

fn to_integer_number(value: Value) -> Value {
    const LIMIT: f64 = 18_446_744_073_709_551_616.0;
    match value.as_f64() {
        Some(number)
            if value.is_f64() && number.fract() == 0.0 && (0.0..LIMIT).contains(&number) =>
        {
            Value::from(number as u64)
        }
        _ => value,
    }
}

/// A query string.
#[derive(FromRequestParts)]
#[from_request(via(axum::extract::Query), rejection(ApiError))]
pub struct Query<T>(pub T);

/// A variable segment of a path.
#[derive(FromRequestParts)]
#[from_request(via(axum::extract::Path), rejection(ApiError))]
pub struct Segment<T>(pub T);

/// Checks that a number of a request is within bounds.
///
/// # Errors
/// 400 with the bounds.
pub fn within(field: &str, number: u64, bounds: RangeInclusive<u64>) -> Result<u64, ApiError> {
    if bounds.contains(&number) {
        return Ok(number);
    }
    let (min, max) = (bounds.start(), bounds.end());
    Err(ApiError::new(
        400,
        format!("{field} is {number}: a number from {min} to {max} is expected"),
    ))
}

/// Checks that a number of a body is at least 1.
///
/// # Errors
/// 422.
pub fn at_least_one(field: &str, number: u64) -> Result<u64, ApiError> {
    match number {
        0 => Err(ApiError::new(422, format!("{field} is 0: a number of at least 1 is expected"))),
        number => Ok(number),
    }
}

fn to_api_error(status: StatusCode, text: String) -> ApiError {
    ApiError::new(u64::from(status.as_u16()), text)
}

impl From<JsonRejection> for ApiError {
    fn from(rejection: JsonRejection) -> Self {
        to_api_error(rejection.status(), rejection.body_text())
    }
}

impl From<QueryRejection> for ApiError {
    fn from(rejection: QueryRejection) -> Self {
        to_api_error(rejection.status(), rejection.body_text())
    }
}

impl From<PathRejection> for ApiError {
    fn from(rejection: PathRejection) -> Self {
        to_api_error(rejection.status(), rejection.body_text())
    }
}
