//! What is asked of the servers: the rows of the table.

use compare_common::{ADD, Add, Rows, TOTAL};
use serde_json::{Value, json};

/// One kind of request, and what it must be answered with.
pub(crate) struct Work {
    /// How it is called on the command line.
    pub(crate) name: &'static str,
    /// How it is called in the table.
    pub(crate) title: &'static str,
    /// How many tools the servers have.
    pub(crate) tools: usize,
    /// How many requests one round sends to each server.
    pub(crate) requests: usize,
    /// Whose answer the floor repeats: it is what a cache can have.
    pub(crate) cached: bool,
    method: &'static str,
    tool: Option<&'static str>,
    arguments: Value,
    expect: Expect,
}

enum Expect {
    /// The text of the only block of content.
    Text(String),
    /// So many tools.
    Tools(usize),
}

impl Work {
    pub(crate) fn all() -> Vec<Self> {
        let add = Add { a: 40, b: 2 };
        let rows = Rows::of_size(64 << 10);
        let call = |name, title, tools| Self {
            name,
            title,
            tools,
            requests: 30_000,
            cached: false,
            method: "tools/call",
            tool: Some(ADD),
            arguments: json!(add),
            expect: Expect::Text(add.answer()),
        };
        vec![
            call("call", "`tools/call`, one small tool", 1),
            call("call-1000", "`tools/call`, 1,000 tools registered", 1000),
            Self {
                requests: 3_000,
                tool: Some(TOTAL),
                arguments: json!(rows),
                expect: Expect::Text(rows.answer()),
                ..call("arguments", "`tools/call`, 64 KiB of structured arguments", 2)
            },
            Self {
                requests: 20_000,
                cached: true,
                method: "tools/list",
                tool: None,
                arguments: Value::Null,
                expect: Expect::Tools(12),
                ..call("list", "`tools/list` of 6 KB (protected: from the cache)", 12)
            },
        ]
    }

    /// The headers besides those of HTTP itself.
    pub(crate) fn headers(&self, token: &str) -> Vec<(&'static str, String)> {
        let mut headers = vec![
            ("content-type", "application/json".to_owned()),
            ("accept", "application/json, text/event-stream".to_owned()),
            ("mcp-protocol-version", "2026-07-28".to_owned()),
            ("mcp-method", self.method.to_owned()),
            ("authorization", format!("Bearer {token}")),
        ];
        headers.extend(self.tool.map(|tool| ("mcp-name", tool.to_owned())));
        headers
    }

    pub(crate) fn body(&self) -> String {
        let mut params = json!({"_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "compare", "version": "1.0.0"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }});
        if let Some(tool) = self.tool {
            params["name"] = tool.into();
            params["arguments"] = self.arguments.clone();
        }
        json!({"jsonrpc": "2.0", "id": 1, "method": self.method, "params": params}).to_string()
    }

    /// Says what is wrong with an answer.
    pub(crate) fn check(&self, answer: &str) -> Result<(), String> {
        // An answer that is framed as the only event of a stream is one, too.
        let json =
            answer.lines().find_map(|line| line.strip_prefix("data: {")).map(|rest| format!("{{{rest}"));
        let answer: Value = serde_json::from_str(json.as_deref().unwrap_or(answer))
            .map_err(|error| format!("{error}: {answer}"))?;
        let result = &answer["result"];
        let is_right = match &self.expect {
            Expect::Text(text) => {
                result["content"].as_array().is_some_and(|content| content.len() == 1)
                    && result["content"][0]["text"] == text.as_str()
                    && result["isError"] != true
            }
            Expect::Tools(count) => result["tools"].as_array().map(Vec::len) == Some(*count),
        };
        let is_right = is_right && answer["id"] == 1 && result["resultType"] == "complete";
        if is_right { Ok(()) } else { Err(format!("not what was expected: {answer}")) }
    }
}
