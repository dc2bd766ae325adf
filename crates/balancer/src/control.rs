//! The control socket: HTTP over a unix socket, and over TCP where configured; the same bounds and rules as a router's. `/openapi.json` lists what there is.

use crate::config::{ControlSection, Weight, is_word};
use crate::metrics;
use crate::run::{Balancer, CommandError, Ending, Handle};
use axum::Router;
use axum::extract::{Json, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use nw_api::balancer::{
    AgentOrder, AgentReport, BalancerMember, BalancerStatus, MemberChange, MemberWanted, NameWhere, Replica,
    RuleText,
};
use nw_api::config::Control;
use nw_api::rest::{Health, Problem};
use nw_api::schema::{MemberNameText, NameText};
use nw_name::Name;
use nw_rest_api::{Body, Query, Refused, Segment, ServeError, Server};
use serde::Deserialize;
use tokio::sync::oneshot;
use utoipa::{IntoParams, OpenApi};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes as paths;

/// Bytes of a request's body.
const BODY_BYTES_MAX: usize = 64 << 10;

/// Serves the control socket in a thread, until it is let go.
///
/// # Errors
/// What can't be had.
pub fn serve(config: &ControlSection, handle: Handle) -> Result<Server, ServeError> {
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
    nw_rest_api::serve_paths(&control, Some(&config.path), None, router(handle))
}

impl From<CommandError> for Refused {
    fn from(error: CommandError) -> Self {
        let code = match &error {
            CommandError::Wrong(_) => 400,
            CommandError::Unknown(_) => 404,
            CommandError::Conflict(_) => 409,
        };
        Refused::new(code, error.to_string())
    }
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Namewire balancer",
        description = "A cluster of routers behind a kernel balancer: who its members are, what they do, where names go.",
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

/// The OpenAPI document, as JSON.
pub fn document() -> String {
    nw_rest_api::complete_document(all_paths().into_openapi())
}

fn router(handle: Handle) -> Router {
    let (router, _) = all_paths().split_for_parts();
    nw_rest_api::finish(router, document(), BODY_BYTES_MAX).with_state(handle)
}

/// Has something done in the loop, and waits for what comes of it.
async fn ask<T: Send + 'static>(
    handle: &Handle,
    what: impl FnOnce(&mut Balancer) -> T + Send + 'static,
) -> Result<T, Refused> {
    let (sender, receiver) = oneshot::channel();
    handle.with(move |balancer| {
        // Whoever asked may have gone.
        let _ = sender.send(what(balancer));
    });
    receiver.await.map_err(|_| Refused::new(503, "the balancer is ending"))
}

/// The balancer as a whole
#[utoipa::path(
    get, path = "/v1/balancer", tag = "balancer", operation_id = "show_balancer",
    responses((status = 200, body = BalancerStatus), (status = 503, body = Problem))
)]
async fn status(State(handle): State<Handle>) -> Result<Json<BalancerStatus>, Refused> {
    Ok(Json(ask(&handle, |balancer| balancer.status()).await?))
}

/// What is left behind.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Stop {
    /// The data path goes on; the next balancer takes it over. Otherwise as the balancer was told at its start.
    keep: Option<bool>,
}

/// End the balancer
#[utoipa::path(post, path = "/v1/stop", operation_id = "stop_balancer", tag = "balancer", params(Stop), responses((status = 202)))]
async fn stop(State(handle): State<Handle>, Query(stop): Query<Stop>) -> StatusCode {
    handle.end(stop.keep.map(|keep| if keep { Ending::Keep } else { Ending::Clean }));
    StatusCode::ACCEPTED
}

/// All members, by number
#[utoipa::path(
    get, path = "/v1/members", operation_id = "list_members", tag = "members",
    responses((status = 200, body = Vec<BalancerMember>), (status = 503, body = Problem))
)]
async fn members(State(handle): State<Handle>) -> Result<Json<Vec<BalancerMember>>, Refused> {
    Ok(Json(ask(&handle, |balancer| balancer.status().members).await?))
}

/// Whether a member can be what the document says, whatever there is in the cluster.
fn check(wanted: &MemberWanted) -> Result<(), Refused> {
    let wrong = |text: String| Err(Refused::new(422, text));
    if !is_word(&wanted.name) {
        return wrong(format!("name: saw {:?}; expected letters, digits, - and _, at most 32", wanted.name));
    }
    if wanted.port == 0 {
        return wrong("port: saw 0; expected an integer from 1 to 65535".to_owned());
    }
    if !(1..=2).contains(&wanted.addresses.len()) {
        return wrong(format!("addresses: saw {}; expected one of each family", wanted.addresses.len()));
    }
    wanted.weight.as_deref().map_or(Ok(()), |weight| weight.parse::<Weight>().map(drop).or_else(wrong))
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
) -> Result<(StatusCode, Json<BalancerMember>), Refused> {
    check(&wanted)?;
    let member = ask(&handle, move |balancer| balancer.add(wanted)).await?;
    // The text is as it should be, so what is wrong with it comes from what there is.
    let member = member.map_err(|error| match error {
        CommandError::Wrong(text) => Refused::new(409, text),
        error => error.into(),
    })?;
    Ok((StatusCode::CREATED, Json(member)))
}

/// One member
#[utoipa::path(
    get, path = "/v1/members/{name}", operation_id = "show_member", tag = "members", params(("name" = inline(MemberNameText), Path, description = "What it is called")),
    responses((status = 200, body = BalancerMember), (status = 404, body = Problem))
)]
async fn member(
    State(handle): State<Handle>,
    Segment(name): Segment<String>,
) -> Result<Json<BalancerMember>, Refused> {
    Ok(Json(ask(&handle, move |balancer| balancer.show(&name)).await??))
}

/// Change a member's weight, or let it rest
#[utoipa::path(
    patch, path = "/v1/members/{name}", operation_id = "change_member", tag = "members", params(("name" = inline(MemberNameText), Path, description = "What it is called")),
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
) -> Result<Json<BalancerMember>, Refused> {
    Ok(Json(ask(&handle, move |balancer| balancer.change(&name, &change)).await??))
}

/// Remove a member
///
/// It takes no new names from now on, and is gone when nothing is pending or after `drain.limit_s`.
#[utoipa::path(
    delete, path = "/v1/members/{name}", operation_id = "remove_member", tag = "members", params(("name" = inline(MemberNameText), Path, description = "What it is called")),
    responses(
        (status = 202, body = BalancerMember), (status = 204), (status = 404, body = Problem), (status = 409, body = Problem)
    )
)]
async fn remove(State(handle): State<Handle>, Segment(name): Segment<String>) -> Result<Response, Refused> {
    let left = ask(&handle, move |balancer| balancer.remove(&name)).await??;
    Ok(match left {
        Some(member) => (StatusCode::ACCEPTED, Json(member)).into_response(),
        None => StatusCode::NO_CONTENT.into_response(),
    })
}

/// Which name.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Which {
    /// The name, as a URI.
    #[param(value_type = NameText, inline)]
    name: String,
}

/// The member that serves a name
#[utoipa::path(
    get, path = "/v1/where", operation_id = "find_name", tag = "names", params(Which),
    responses((status = 200, body = NameWhere), (status = 400, body = Problem))
)]
async fn where_is(
    State(handle): State<Handle>,
    Query(which): Query<Which>,
) -> Result<Json<NameWhere>, Refused> {
    let name: Name = which
        .name
        .parse()
        .map_err(|error| Refused::new(400, format!("{:?} is no name: {error}", which.name)))?;
    Ok(Json(ask(&handle, move |balancer| balancer.where_is(name.as_ref())).await?))
}

/// Rules, by prefix
#[utoipa::path(get, path = "/v1/rules", operation_id = "list_rules", tag = "names", responses((status = 200, body = Vec<RuleText>)))]
async fn rules(State(handle): State<Handle>) -> Result<Json<Vec<RuleText>>, Refused> {
    Ok(Json(ask(&handle, |balancer| balancer.rule_texts()).await?))
}

/// For which agent.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct For {
    /// The member.
    #[param(value_type = MemberNameText, inline)]
    member: String,
    /// The generation it has.
    #[serde(default)]
    known: u64,
}

/// The routes that a member shall have
///
/// Nothing (204) while they are those of the generation that is known.
#[utoipa::path(
    get, path = "/v1/replica", operation_id = "show_replica", tag = "agents", params(For),
    responses((status = 200, body = Replica), (status = 204), (status = 404, body = Problem))
)]
async fn replica(State(handle): State<Handle>, Query(wanted): Query<For>) -> Result<Response, Refused> {
    let replica = ask(&handle, move |balancer| balancer.replica_for(&wanted.member, wanted.known)).await?;
    let replica = replica.map_err(CommandError::from)?;
    Ok(match replica {
        Some(replica) => Json(replica).into_response(),
        None => StatusCode::NO_CONTENT.into_response(),
    })
}

/// What an agent says of its member's router
#[utoipa::path(
    put, path = "/v1/members/{name}/agent", operation_id = "report_agent", tag = "agents", params(("name" = inline(MemberNameText), Path, description = "The member")),
    request_body = AgentReport, responses((status = 200, body = AgentOrder), (status = 404, body = Problem))
)]
async fn report(
    State(handle): State<Handle>,
    Segment(name): Segment<String>,
    Body(report): Body<AgentReport>,
) -> Result<Json<AgentOrder>, Refused> {
    let order = ask(&handle, move |balancer| balancer.on_remote_report(&name, &report)).await?;
    Ok(Json(order.map_err(CommandError::from)?))
}

/// Whether the program works
#[utoipa::path(get, path = "/healthz", tag = "balancer", operation_id = "health", responses((status = 200, body = Health)))]
async fn health() -> Json<Health> {
    Json(Health { ok: true })
}

/// Whether the balancer works: its loop answers
#[utoipa::path(
    get, path = "/readyz", tag = "balancer", operation_id = "readiness",
    responses((status = 200, body = Health), (status = 503, body = Problem))
)]
async fn ready(State(handle): State<Handle>) -> Result<Json<Health>, Refused> {
    ask(&handle, |_| ()).await?;
    Ok(Json(Health { ok: true }))
}

/// Everything that is counted
#[utoipa::path(
    get, path = "/metrics", tag = "balancer",
    responses((status = 200, content_type = "text/plain", body = String, description = "Prometheus' text format"))
)]
async fn show_metrics(State(handle): State<Handle>) -> Result<impl IntoResponse, Refused> {
    let status = ask(&handle, |balancer| balancer.status()).await?;
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], metrics::encode(&status)))
}
