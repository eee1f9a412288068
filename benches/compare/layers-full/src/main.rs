//! mcp-layers with everything that protects an API: all layers in the order that the crate recommends, RS256 tokens, and
//! arguments that are validated against the schema of their type.
//!
//! The keys of the issuer are in a file, which `JWKS` in the environment names.

use std::num::NonZeroUsize;
use std::time::Duration;

use compare_common::{AUDIENCE, Add, ISSUER, Rows, SCOPE, TOTAL, tools};
use hyper_util::service::TowerToHyperService;
use mcp_layers::dispatch::{CacheHint, Dispatch, Tool};
use mcp_layers::layers::auth::{AuthLayer, JwtVerifier, ProtectedResource, StaticKeys};
use mcp_layers::layers::cache::ResponseCache;
use mcp_layers::layers::request_state::{StateKey, StateKeys};
use mcp_layers::layers::{LimitsLayer, RequestStateLayer, ScopeRules};
use mcp_layers::stack::Stack;

fn main() {
    let mut server =
        Dispatch::builder("compare", "1.0.0").with_list_cache(CacheHint::public(Duration::from_secs(3600)));
    for (name, description) in tools(compare_common::tool_count()) {
        let tool = if name == TOTAL {
            Tool::new(name, async |rows: Rows, _| Ok(rows.answer()))
        } else {
            Tool::new(name, async |add: Add, _| Ok(add.answer()))
        };
        server = server.tool(tool.with_description(description).with_scopes(SCOPE));
    }
    let server = server.build().expect("a server");

    let jwks = std::fs::read(std::env::var_os("JWKS").expect("JWKS names a file")).expect("the file");
    let keys = StaticKeys::from_jwks(jwks).expect("keys");
    let resource = ProtectedResource::new(AUDIENCE, [ISSUER]).expect("a resource");
    let limit = |max| NonZeroUsize::new(max).expect("is not 0");
    let state_keys = StateKeys::new([StateKey::new(&[7; 32]).expect("32 bytes")]).expect("a key");

    let limits = LimitsLayer::new()
        .with_max_elements(limit(100_000))
        .with_max_depth(limit(32))
        .with_max_string_bytes(limit(64 << 10));
    let stack = Stack::new(server.clone())
        .with_auth(AuthLayer::new(JwtVerifier::new(ISSUER, AUDIENCE, keys), &resource))
        .with_scopes(ScopeRules::new())
        .expect("rules")
        .with_limits(limits)
        .with_cache(ResponseCache::new("compare"))
        .with_request_state(RequestStateLayer::new(state_keys, AUDIENCE))
        .service(server);
    compare_common::serve(async || TowerToHyperService::new(stack));
}
