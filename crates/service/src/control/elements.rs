//! Elements over the control socket: their states, cached packets, and routes.

use super::{Shared, host_error, service_ending};
use axum::extract::{Json, State};
use nw_api::rest::Problem;
use nw_api::service::{
    ControlRoute, ElementRoutes, ErasedPackets, PrefixErasure, RouteChange, RouteSet,
    ServiceElement,
};
use nw_elements::ContentStore;
use nw_elements::name_router::ControlRoutes;
use nw_graph::host::{Handle, HostError, RouteError};
use nw_name::Name;
use nw_rest_api::{ApiError, Body, Segment};
use nw_tables::cs::EraseCursor;

/// Calls a function that waits for the loop, outside of the server's own thread.
pub(super) async fn call<R: Send + 'static>(
    handle: &Handle,
    call: impl FnOnce(&Handle) -> Result<R, HostError> + Send + 'static,
) -> Result<R, ApiError> {
    let handle = handle.clone();
    let called = tokio::task::spawn_blocking(move || call(&handle)).await;
    called.map_err(|_| service_ending())?.map_err(|error| host_error(&error))
}

pub(super) fn no_store(element: &str) -> ApiError {
    ApiError::new(404, format!("no content_store of this service is called {element:?}"))
}

fn parse_name(uri: &str) -> Result<Name, ApiError> {
    uri.parse().map_err(|error| ApiError::new(422, format!("{uri:?} is not a valid name: {error}")))
}

/// The elements, with their state
///
/// `values` has the numbers of each: `pending` Interests, cached `packets` and `bytes`, `hits` and
/// `misses`, registered routes, verified packets.
#[utoipa::path(get, path = "/v1/elements", tag = "elements", operation_id = "list_elements", responses((status = 200, body = Vec<ServiceElement>), (status = 503, body = Problem)))]
pub(super) async fn list(
    State(shared): State<Shared>,
) -> Result<Json<Vec<ServiceElement>>, ApiError> {
    call(&shared.handle, Handle::elements).await.map(Json)
}

/// One element, with its state
#[utoipa::path(
    get, path = "/v1/elements/{element}", tag = "elements", operation_id = "show_element",
    params(("element" = String, Path, description = "Name in the graph")),
    responses((status = 200, body = ServiceElement), (status = 404, body = Problem))
)]
pub(super) async fn show(
    State(shared): State<Shared>,
    Segment(element): Segment<String>,
) -> Result<Json<ServiceElement>, ApiError> {
    let elements = call(&shared.handle, Handle::elements).await?;
    let found = elements.into_iter().find(|state| state.name == element);
    found.map(Json).ok_or_else(|| {
        ApiError::new(404, format!("no element of this service is called {element:?}"))
    })
}

/// Remove cached packets of a content store
///
/// Forwarding goes on meanwhile: the store is searched in steps.
#[utoipa::path(
    post, path = "/v1/elements/{element}/erase", tag = "elements", operation_id = "erase_packets",
    params(("element" = String, Path, description = "Name in the graph")),
    request_body = PrefixErasure,
    responses((status = 200, body = ErasedPackets), (status = 404, body = Problem))
)]
pub(super) async fn erase(
    State(shared): State<Shared>,
    Segment(element): Segment<String>,
    Body(erasure): Body<PrefixErasure>,
) -> Result<Json<ErasedPackets>, ApiError> {
    let prefix = parse_name(&erasure.prefix)?;
    let packets_max = erasure.packets_max.map(|max| nw_rest_api::at_least_one("packets_max", max));
    let packets_max = packets_max.transpose()?.unwrap_or(u64::MAX);
    let mut cursor = EraseCursor::new(usize::try_from(packets_max).unwrap_or(usize::MAX));
    loop {
        let (name, prefix) = (element.clone(), prefix.clone());
        let step = move |handle: &Handle| {
            handle.with_element::<ContentStore, _>(&name, move |store, _, _| {
                let is_complete = store.store_mut().erase_part(prefix.as_ref(), &mut cursor);
                (cursor, is_complete)
            })
        };
        let (next, is_complete) =
            call(&shared.handle, step).await?.ok_or_else(|| no_store(&element))?;
        if is_complete {
            return Ok(Json(ErasedPackets { erased: next.erased as u64 }));
        }
        cursor = next;
    }
}

fn route_error(error: &RouteError) -> ApiError {
    let code = match error {
        RouteError::NoNameRouter(_) | RouteError::NoLink(_) => 404,
        RouteError::OldVersion(..) | RouteError::Full(_) => 409,
    };
    ApiError::new(code, error.to_string())
}

async fn read_routes(shared: &Shared, element: String) -> Result<Json<ElementRoutes>, ApiError> {
    let name = element.clone();
    let routes = call(&shared.handle, move |handle| handle.routes(&name)).await?;
    routes.map(Json).ok_or_else(|| route_error(&RouteError::NoNameRouter(element)))
}

async fn change_routes(
    shared: &Shared,
    element: String,
    version: u64,
    change: impl FnOnce(&mut ControlRoutes) + Send + 'static,
) -> Result<Json<ElementRoutes>, ApiError> {
    nw_rest_api::at_least_one("version", version)?;
    let name = element.clone();
    let changed =
        call(&shared.handle, move |handle| handle.change_routes(&name, version, change)).await?;
    changed.map_err(|error| route_error(&error))?;
    read_routes(shared, element).await
}

/// Prefix and link, and the cost.
type ParsedRoute = ((Name, String), u32);

fn parse_routes(routes: Vec<ControlRoute>) -> Result<Vec<ParsedRoute>, ApiError> {
    let parse = |route: ControlRoute| Ok(((parse_name(&route.prefix)?, route.link), route.cost));
    routes.into_iter().map(parse).collect()
}

/// Routes of a name router
#[utoipa::path(
    get, path = "/v1/elements/{element}/routes", tag = "elements", operation_id = "list_routes",
    params(("element" = String, Path, description = "Name in the graph")),
    responses((status = 200, body = ElementRoutes), (status = 404, body = Problem))
)]
pub(super) async fn routes(
    State(shared): State<Shared>,
    Segment(element): Segment<String>,
) -> Result<Json<ElementRoutes>, ApiError> {
    read_routes(&shared, element).await
}

/// Replace the routes that this operation or `change_routes` has set
///
/// The same request twice has the effect of one. Routes of the graph and registered ones stay.
#[utoipa::path(
    put, path = "/v1/elements/{element}/routes", tag = "elements", operation_id = "set_routes",
    params(("element" = String, Path, description = "Name in the graph")),
    request_body = RouteSet,
    responses(
        (status = 200, body = ElementRoutes), (status = 404, body = Problem),
        (status = 409, body = Problem, description = "A later version is in effect, or a table is full; nothing changed")
    )
)]
pub(super) async fn set_routes(
    State(shared): State<Shared>,
    Segment(element): Segment<String>,
    Body(set): Body<RouteSet>,
) -> Result<Json<ElementRoutes>, ApiError> {
    let routes = parse_routes(set.routes)?;
    let change = move |known: &mut ControlRoutes| known.costs = routes.into_iter().collect();
    change_routes(&shared, element, set.version, change).await
}

/// Add and remove routes
///
/// The same request twice has the effect of one.
#[utoipa::path(
    post, path = "/v1/elements/{element}/routes", tag = "elements", operation_id = "change_routes",
    params(("element" = String, Path, description = "Name in the graph")),
    request_body = RouteChange,
    responses(
        (status = 200, body = ElementRoutes), (status = 404, body = Problem),
        (status = 409, body = Problem, description = "A later version is in effect, or a table is full; nothing changed")
    )
)]
pub(super) async fn add_and_remove_routes(
    State(shared): State<Shared>,
    Segment(element): Segment<String>,
    Body(change): Body<RouteChange>,
) -> Result<Json<ElementRoutes>, ApiError> {
    let (added, removed) = (parse_routes(change.add)?, parse_routes(change.remove)?);
    let apply = move |known: &mut ControlRoutes| {
        known.costs.retain(|key, _| !removed.iter().any(|(gone, _)| gone == key));
        known.costs.extend(added);
    };
    change_routes(&shared, element, change.version, apply).await
}
