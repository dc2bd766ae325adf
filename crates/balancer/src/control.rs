//! The control socket: HTTP over a unix socket, and over TCP where configured, with the same bounds
//! and rules as a router's REST interface. `/openapi.json` describes it.

use crate::config::{ControlSection, Weight, is_identifier};
use crate::metrics;
use crate::run::{Balancer, CommandError, Handle, Shutdown};
use axum::extract::{Json, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use nw_api::balancer::{
    AgentOrder, AgentReport, BalancerMember, BalancerStatus, MemberChange, MemberWanted, NameWhere,
    Replica, RuleText,
};
use nw_api::config::{Control, Page};
use nw_api::rest::{Health, PageTicket, Problem};
use nw_api::schema::{MemberNameText, NameText};
use nw_name::Name;
use nw_rest_api::{ApiError, Body, PageAccess, PageUser, Query, Segment, ServeError, Server};
use serde::Deserialize;
use std::sync::Arc;
use tokio::sync::oneshot;
use utoipa::{IntoParams, OpenApi};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes as paths;

/// Maximum length of a request body, bytes.
const BODY_BYTES_MAX: usize = 64 << 10;

/// Serves the control socket in a thread until the returned server is dropped.
///
/// # Errors
/// A socket can't be opened or a file can't be read.
pub fn serve(config: &ControlSection, page: &Page, handle: Handle) -> Result<Server, ServeError> {
    let control = Control {
        enabled: true,
        path: Some(config.path.clone()),
        mode: config.mode,
        metrics_listen: config.metrics_listen.clone(),
        listen: config.listen.clone(),
        allow_remote: config.allow_remote,
        token_file: config.token_file.clone(),
        connections: config.connections,
        face_metrics: false,
    };
    let access = nw_rest_api::page_access(page, "balancer")?;
    let router = router(handle).layer(Extension(access.clone()));
    let page = access.map(|access| (page, access));
    nw_rest_api::serve_paths_and_page(&control, Some(&config.path), None, router, page)
}

impl From<CommandError> for ApiError {
    fn from(error: CommandError) -> Self {
        ApiError(error.into())
    }
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Namewire balancer",
        description = "A cluster of routers behind a kernel balancer: its members, their states, and which member serves a name.",
        license(name = "Apache-2.0 OR MIT", identifier = "Apache-2.0 OR MIT")
    ),
    tags(
        (name = "balancer", description = "The balancer as a whole"),
        (name = "members", description = "Routers of the cluster"),
        (name = "names", description = "Where names go"),
        (name = "agents", description = "For members on other machines")
    )
)]
struct Document;

fn all_paths() -> OpenApiRouter<Handle> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(paths!(status))
        .routes(paths!(stop))
        .routes(paths!(create_page_ticket))
        .routes(paths!(members, add))
        .routes(paths!(member, change, remove))
        .routes(paths!(where_is))
        .routes(paths!(rules))
        .routes(paths!(replica))
        .routes(paths!(report))
        .routes(paths!(show_metrics))
        .routes(paths!(health))
        .routes(paths!(ready))
}

/// Returns the OpenAPI document, as JSON.
pub fn document() -> String {
    nw_rest_api::complete_document(all_paths().into_openapi())
}

fn router(handle: Handle) -> Router {
    let (router, _) = all_paths().split_for_parts();
    nw_rest_api::finish(router, document(), BODY_BYTES_MAX).with_state(handle)
}

/// Create a URL that opens the page once
#[utoipa::path(
    post, path = "/v1/page/tickets", tag = "balancer", operation_id = "create_page_ticket",
    responses((status = 201, body = PageTicket), (status = 409, body = Problem, description = "The balancer serves no page"))
)]
async fn create_page_ticket(
    Extension(page): Extension<Option<Arc<PageAccess>>>,
) -> Result<(StatusCode, Json<PageTicket>), ApiError> {
    nw_rest_api::create_page_ticket(page.as_deref(), PageUser::default())
}

/// Runs a function in the balancer's event loop, and returns its result.
async fn run_in_loop<T: Send + 'static>(
    handle: &Handle,
    function: impl FnOnce(&mut Balancer) -> T + Send + 'static,
) -> Result<T, ApiError> {
    let (sender, receiver) = oneshot::channel();
    handle.with(move |balancer| {
        // The client may have closed the connection.
        let _ = sender.send(function(balancer));
    });
    receiver.await.map_err(|_| ApiError::new(503, "the balancer is shutting down"))
}

/// The balancer as a whole
#[utoipa::path(
    get, path = "/v1/balancer", tag = "balancer", operation_id = "show_balancer",
    responses((status = 200, body = BalancerStatus), (status = 503, body = Problem))
)]
async fn status(State(handle): State<Handle>) -> Result<Json<BalancerStatus>, ApiError> {
    Ok(Json(run_in_loop(&handle, |balancer| balancer.status()).await?))
}

/// What the balancer leaves in the kernel.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct StopQuery {
    /// Leave the data path attached; the next balancer takes it over. Default: as set at the start.
    keep: Option<bool>,
}

/// End the balancer
#[utoipa::path(
    post, path = "/v1/stop", operation_id = "stop_balancer", tag = "balancer", params(StopQuery),
    responses((status = 202))
)]
async fn stop(State(handle): State<Handle>, Query(stop): Query<StopQuery>) -> StatusCode {
    handle.end(stop.keep.map(|keep| if keep { Shutdown::LeaveAttached } else { Shutdown::Detach }));
    StatusCode::ACCEPTED
}

/// All members, by number
#[utoipa::path(
    get, path = "/v1/members", operation_id = "list_members", tag = "members",
    responses((status = 200, body = Vec<BalancerMember>), (status = 503, body = Problem))
)]
async fn members(State(handle): State<Handle>) -> Result<Json<Vec<BalancerMember>>, ApiError> {
    Ok(Json(run_in_loop(&handle, |balancer| balancer.status().members).await?))
}

/// Checks a new member's document by itself, independent of the cluster.
pub(crate) fn check_member(wanted: &MemberWanted) -> Result<(), String> {
    let wrong = Err;
    if !is_identifier(&wanted.name) {
        return wrong(format!(
            "name: saw {:?}; expected letters, digits, - and _, at most 32",
            wanted.name
        ));
    }
    if wanted.port == 0 {
        return wrong("port: saw 0; expected an integer from 1 to 65535".to_owned());
    }
    if !(1..=2).contains(&wanted.addresses.len()) {
        return wrong(format!(
            "addresses: saw {}; expected one of each family",
            wanted.addresses.len()
        ));
    }
    wanted
        .weight
        .as_deref()
        .map_or(Ok(()), |weight| weight.parse::<Weight>().map(drop).or_else(wrong))
}

/// Add a member
///
/// It gets all routes and is probed before it takes names.
#[utoipa::path(
    post, path = "/v1/members", operation_id = "add_member", tag = "members", request_body = MemberWanted,
    responses((status = 201, body = BalancerMember), (status = 409, body = Problem))
)]
async fn add(
    State(handle): State<Handle>,
    Body(wanted): Body<MemberWanted>,
) -> Result<(StatusCode, Json<BalancerMember>), ApiError> {
    check_member(&wanted).map_err(|text| ApiError::new(422, text))?;
    let member = run_in_loop(&handle, move |balancer| balancer.add(wanted)).await?;
    // The document itself is valid, so the conflict is with other members.
    let member = member.map_err(|error| match error {
        CommandError::Wrong(text) => ApiError::new(409, text),
        error => error.into(),
    })?;
    Ok((StatusCode::CREATED, Json(member)))
}

/// One member
#[utoipa::path(
    get, path = "/v1/members/{name}", operation_id = "show_member", tag = "members",
    params(("name" = inline(MemberNameText), Path, description = "The member's name")),
    responses((status = 200, body = BalancerMember), (status = 404, body = Problem))
)]
async fn member(
    State(handle): State<Handle>,
    Segment(name): Segment<String>,
) -> Result<Json<BalancerMember>, ApiError> {
    Ok(Json(run_in_loop(&handle, move |balancer| balancer.show(&name)).await??))
}

/// Change a member's weight, or drain it
#[utoipa::path(
    patch, path = "/v1/members/{name}", operation_id = "change_member", tag = "members",
    params(("name" = inline(MemberNameText), Path, description = "The member's name")),
    request_body = MemberChange,
    responses(
        (status = 200, body = BalancerMember), (status = 400, body = Problem), (status = 404, body = Problem),
        (status = 409, body = Problem)
    )
)]
async fn change(
    State(handle): State<Handle>,
    Segment(name): Segment<String>,
    Body(change): Body<MemberChange>,
) -> Result<Json<BalancerMember>, ApiError> {
    Ok(Json(run_in_loop(&handle, move |balancer| balancer.change(&name, &change)).await??))
}

/// Remove a member
///
/// It takes no new names, and is gone when no Interest is pending or after `drain.limit_s`.
#[utoipa::path(
    delete, path = "/v1/members/{name}", operation_id = "remove_member", tag = "members",
    params(("name" = inline(MemberNameText), Path, description = "The member's name")),
    responses(
        (status = 202, body = BalancerMember), (status = 204), (status = 404, body = Problem),
        (status = 409, body = Problem)
    )
)]
async fn remove(
    State(handle): State<Handle>,
    Segment(name): Segment<String>,
) -> Result<Response, ApiError> {
    let left = run_in_loop(&handle, move |balancer| balancer.remove(&name)).await??;
    Ok(match left {
        Some(member) => (StatusCode::ACCEPTED, Json(member)).into_response(),
        None => StatusCode::NO_CONTENT.into_response(),
    })
}

/// The name to look up.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct NameQuery {
    /// The name, as a URI.
    #[param(value_type = NameText, inline)]
    name: String,
}

/// The member that serves a name
#[utoipa::path(
    get, path = "/v1/where", operation_id = "find_name", tag = "names", params(NameQuery),
    responses((status = 200, body = NameWhere), (status = 400, body = Problem))
)]
async fn where_is(
    State(handle): State<Handle>,
    Query(query): Query<NameQuery>,
) -> Result<Json<NameWhere>, ApiError> {
    let name: Name = query
        .name
        .parse()
        .map_err(|error| ApiError::new(400, format!("invalid name {:?}: {error}", query.name)))?;
    Ok(Json(run_in_loop(&handle, move |balancer| balancer.where_is(name.as_ref())).await?))
}

/// Rules, by prefix
#[utoipa::path(
    get, path = "/v1/rules", operation_id = "list_rules", tag = "names",
    responses((status = 200, body = Vec<RuleText>))
)]
async fn rules(State(handle): State<Handle>) -> Result<Json<Vec<RuleText>>, ApiError> {
    Ok(Json(run_in_loop(&handle, |balancer| balancer.rule_texts()).await?))
}

/// The agent that asks for routes.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct ReplicaQuery {
    /// The agent's member.
    #[param(value_type = MemberNameText, inline)]
    member: String,
    /// The generation that the agent has already.
    #[serde(default)]
    known: u64,
}

/// The routes that a member should have
///
/// No content (204) while the agent has the newest generation.
#[utoipa::path(
    get, path = "/v1/replica", operation_id = "show_replica", tag = "agents", params(ReplicaQuery),
    responses((status = 200, body = Replica), (status = 204), (status = 404, body = Problem))
)]
async fn replica(
    State(handle): State<Handle>,
    Query(query): Query<ReplicaQuery>,
) -> Result<Response, ApiError> {
    let replica =
        run_in_loop(&handle, move |balancer| balancer.replica_for(&query.member, query.known))
            .await?;
    let replica = replica.map_err(CommandError::from)?;
    Ok(match replica {
        Some(replica) => Json(replica).into_response(),
        None => StatusCode::NO_CONTENT.into_response(),
    })
}

/// Report the state of a member's router
#[utoipa::path(
    put, path = "/v1/members/{name}/agent", operation_id = "report_agent", tag = "agents",
    params(("name" = inline(MemberNameText), Path, description = "The member's name")),
    request_body = AgentReport, responses((status = 200, body = AgentOrder), (status = 404, body = Problem))
)]
async fn report(
    State(handle): State<Handle>,
    Segment(name): Segment<String>,
    Body(report): Body<AgentReport>,
) -> Result<Json<AgentOrder>, ApiError> {
    let order =
        run_in_loop(&handle, move |balancer| balancer.on_remote_report(&name, &report)).await?;
    Ok(Json(order.map_err(CommandError::from)?))
}

/// Whether the process works
#[utoipa::path(
    get, path = "/healthz", tag = "balancer", operation_id = "health",
    responses((status = 200, body = Health))
)]
async fn health() -> Json<Health> {
    Json(Health { ok: true })
}

/// Whether the balancer's event loop responds
#[utoipa::path(
    get, path = "/readyz", tag = "balancer", operation_id = "readiness",
    responses((status = 200, body = Health), (status = 503, body = Problem))
)]
async fn ready(State(handle): State<Handle>) -> Result<Json<Health>, ApiError> {
    run_in_loop(&handle, |_| ()).await?;
    Ok(Json(Health { ok: true }))
}

/// All metrics
#[utoipa::path(
    get, path = "/metrics", tag = "balancer",
    responses((status = 200, content_type = "text/plain", body = String, description = "Prometheus' text format"))
)]
async fn show_metrics(State(handle): State<Handle>) -> Result<impl IntoResponse, ApiError> {
    let read = |balancer: &mut Balancer| (balancer.status(), balancer.enrolment_counts());
    let (status, enrolments) = run_in_loop(&handle, read).await?;
    let text = metrics::encode(&status, &enrolments);
    Ok(([(CONTENT_TYPE, nw_api::exposition::CONTENT_TYPE)], text))
}
