//! tower-mcp's HTTP transport as its documentation shows it, with revision 2026-07-28 compiled in. The axum router that
//! it makes is served by hyper directly, as the others are.

use compare_common::{Add, Rows, TOTAL, tools};
use hyper_util::service::TowerToHyperService;
use tower_mcp::{CallToolResult, HttpTransport, McpRouter, SubscriptionLimits, ToolBuilder};

fn main() {
    let mut router = McpRouter::new().server_info("compare", "1.0.0");
    for (name, description) in tools(compare_common::tool_count()) {
        let tool = if name == TOTAL {
            ToolBuilder::new(name)
                .description(description)
                .handler(|rows: Rows| async move { Ok(CallToolResult::text(rows.answer())) })
                .build()
        } else {
            ToolBuilder::new(name)
                .description(description)
                .handler(|add: Add| async move { Ok(CallToolResult::text(add.answer())) })
                .build()
        };
        router = router.tool(tool);
    }
    // 256 unless it is told otherwise: fewer than are measured.
    let limits = SubscriptionLimits::default().max_active(10_000);
    compare_common::serve(async || {
        let transport = HttpTransport::new(router).subscription_limits(limits);
        TowerToHyperService::new(transport.into_router_at("/mcp"))
    });
}
