//! rmcp's Streamable HTTP service as its documentation shows it, without sessions and with JSON answers, which is the
//! quickest that it has: `json_response`, no `legacy_session_mode`. The tools are made once and shared: the examples of
//! its documentation make them anew for each request, which 1,000 tools would make slow.

use std::sync::Arc;

use compare_common::{Add, Rows, TOTAL, tools};
use hyper_util::service::TowerToHyperService;
use rmcp::handler::server::router::tool::{ToolRoute, ToolRouter};
use rmcp::handler::server::tool::{ToolCallContext, schema_for_input};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ListToolsResult, PaginatedRequestParams, ServerCapabilities,
    ServerConfig, SubscriptionFilter, Tool,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler};

struct Server {
    tools: ToolRouter<Self>,
}

fn add(_: &Server, Parameters(add): Parameters<Add>) -> String {
    add.answer()
}

fn total(_: &Server, Parameters(rows): Parameters<Rows>) -> String {
    rows.answer()
}

impl Server {
    fn new(count: usize) -> Self {
        let mut router = ToolRouter::new();
        for (name, description) in tools(count) {
            router.add_route(if name == TOTAL {
                let schema = schema_for_input::<Rows>().expect("a schema");
                ToolRoute::new(Tool::new(name, description, schema), total)
            } else {
                let schema = schema_for_input::<Add>().expect("a schema");
                ToolRoute::new(Tool::new(name, description, schema), add)
            });
        }
        Self { tools: router }
    }
}

/// As the macro `tool_handler` writes it.
impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.tools.call(ToolCallContext::new(self, request, context)).await
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.list_all()))
    }

    /// Without it there is no `subscriptions/listen`.
    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }
}

fn main() {
    let server = Arc::new(Server::new(compare_common::tool_count()));
    let config =
        StreamableHttpServerConfig::default().with_legacy_session_mode(false).with_json_response(true);
    compare_common::serve(async || {
        TowerToHyperService::new(StreamableHttpService::<_, LocalSessionManager>::new(
            move || Ok(Arc::clone(&server)),
            Arc::default(),
            config,
        ))
    });
}
