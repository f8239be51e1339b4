//! The JSON schema of a tool's arguments, kept to what every client reads.

use serde_json::{Map, Value, json};

use super::check::ceiling;
use super::{Kind, Param};
use crate::config::Config;

/// The portable JSON schema of a tool's arguments.
pub(crate) fn schema(params: &[Param], config: &Config) -> Map<String, Value> {
    let mut properties = Map::new();
    for param in params.iter().filter(|param| !param.hidden) {
        let mut property = match param.kind {
            Kind::Text | Kind::Url | Kind::Session => json!({ "type": "string" }),
            Kind::Texts => json!({ "type": "array", "items": { "type": "string" } }),
            Kind::Urls => json!({ "type": "array", "items": { "type": "string" },
                "minItems": 1, "maxItems": config.bounds.max_batch }),
            Kind::Flag => json!({ "type": "boolean" }),
            Kind::Int { min, max } => json!({ "type": "integer", "minimum": min,
                "maximum": ceiling(param.name, max, config) }),
            Kind::Options | Kind::Ignored | Kind::Refused => json!({}),
            Kind::Word(words) => json!({ "type": "string", "enum": words }),
            Kind::Words(words) => {
                json!({ "type": "array", "items": { "type": "string", "enum": words } })
            }
            Kind::Wait => json!({ "anyOf": [{ "type": "boolean" },
                { "type": "number", "minimum": 0, "maximum": config.max_wait.as_secs() }] }),
            Kind::Headers | Kind::Selectors => {
                json!({ "type": "object", "additionalProperties": { "type": "string" } })
            }
        };
        property["description"] = json!(param.about);
        if let Ok(default) = serde_json::from_str::<Value>(param.default) {
            property["default"] = default;
        }
        properties.insert(param.name.to_owned(), property);
    }
    let required: Vec<_> = params
        .iter()
        .filter(|p| p.required)
        .map(|p| p.name)
        .collect();
    let mut schema = Map::new();
    schema.insert("type".into(), json!("object"));
    schema.insert("properties".into(), Value::Object(properties));
    if !required.is_empty() {
        schema.insert("required".into(), json!(required));
    }
    schema.insert("additionalProperties".into(), json!(false));
    schema
}
