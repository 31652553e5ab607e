//! The reference of all methods as a page, made from the OpenRPC document alone: modules, methods
//! with parameters, results and examples, then the types.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::shared::described::is_update;

/// Longest text in the result of an example, in characters: a hash with its `0x` fits.
const TEXT_LEN_MAX: usize = 66;
/// The most characters of a longer text that are shown.
const TEXT_LEN_SHOWN: usize = 20;
/// Most lines of the result of an example.
const RESULT_LINES_MAX: usize = 30;

/// Compares `docs/NAME` with the page of `document`. If the files are to be written anew, it is
/// written.
///
/// `intro` is what the page says about the server before the methods.
pub(crate) fn check_page(name: &str, intro: &str, document: &Value) {
    let path = docs().join(name);
    let page = page(intro, document);
    if is_update() {
        std::fs::write(&path, &page).expect("the page can be written");
    }
    let file = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        file == page,
        "docs/{name} is stale: run with UPDATE_EXAMPLES=1 (twice, if an example has changed)"
    );
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

/// The page of an OpenRPC document.
fn page(intro: &str, document: &Value) -> String {
    let title = text(&document["info"]["title"]);
    let mut page = format!("# {title}\n\n");
    page += "<!-- Written by the tests of the package `rpc` from the OpenRPC document; see CONTRIBUTING.md. -->\n\n";
    page += intro;
    let _ = writeln!(page, "\n\n{}\n", text(&document["info"]["description"]));
    let mut modules: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for method in list(&document["methods"]) {
        let module = text(&method["tags"][0]["name"]);
        modules.entry(module).or_default().push(method);
    }
    page += "| module | methods |\n|---|---|\n";
    for (module, methods) in &modules {
        let names = methods.iter().map(|method| {
            let name = text(&method["name"]);
            format!("[{name}](#{})", anchor(name))
        });
        let names: Vec<_> = names.collect();
        let _ = writeln!(page, "| {module} | {} |", names.join(", "));
    }
    for (module, methods) in &modules {
        let _ = writeln!(page, "\n## Module {module}");
        for method in methods {
            page += &method_part(method);
        }
    }
    page += "\n## Types\n";
    for (name, schema) in map(&document["components"]["schemas"]) {
        page += &type_part(name, schema);
    }
    page
}

fn method_part(method: &Value) -> String {
    let name = text(&method["name"]);
    let mut part = format!("\n### {name}\n\n{}", text(&method["summary"]));
    if let Some(alias) = method["x-alias"].as_str() {
        let _ = write!(part, " Also served as `{alias}`.");
    }
    part += "\n\n";
    let params = list(&method["params"]);
    if !params.is_empty() {
        part += "| parameter | type | |\n|---|---|---|\n";
    }
    for param in params {
        let needed = if param["required"] == true {
            "required"
        } else {
            "optional"
        };
        let kind = type_text(&param["schema"]);
        let _ = writeln!(part, "| `{}` | {kind} | {needed} |", text(&param["name"]));
    }
    if !params.is_empty() {
        part += "\n";
    }
    let _ = writeln!(part, "Result: {}", type_text(&method["result"]["schema"]));
    for example in list(&method["examples"]) {
        let params = list(&example["params"]);
        let params: Vec<_> = params.iter().map(|param| param["value"].clone()).collect();
        let params = serde_json::to_string(&params).expect("JSON");
        let result = shown(&example["result"]["value"]);
        let _ = writeln!(part, "\n```text\n{name} {params}\n→ {result}\n```");
    }
    part
}

fn type_part(name: &str, schema: &Value) -> String {
    let mut part = format!("\n### {name}\n\n");
    if let Some(description) = schema["description"].as_str() {
        let _ = writeln!(part, "{description}");
    }
    let fields = schema["properties"].as_object();
    let Some(fields) = fields.filter(|fields| !fields.is_empty()) else {
        if schema["description"].is_null() || schema.get("oneOf").is_some() {
            let _ = writeln!(part, "{}", type_text(schema));
        }
        return part;
    };
    let required = list(&schema["required"]);
    if schema["description"].is_string() {
        part += "\n";
    }
    part += "| field | type | |\n|---|---|---|\n";
    for (field, kind) in fields {
        let needed = if required.iter().any(|name| name == field) {
            ""
        } else {
            "may be missing"
        };
        let _ = writeln!(part, "| `{field}` | {} | {needed} |", type_text(kind));
    }
    part
}

/// A schema in words, with links to the types that it names.
fn type_text(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap_or(reference);
        return format!("[{name}](#{})", anchor(name));
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        let choices: Vec<_> = choices.iter().map(type_text).collect();
        return choices.join(" or ");
    }
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<_> = values.iter().map(|value| format!("`{value}`")).collect();
        return values.join(" or ");
    }
    let kind = match text(&schema["type"]) {
        "array" if schema.get("items").is_some() => format!("array of {}", type_text(&schema["items"])),
        "object" if schema["additionalProperties"].is_object() => {
            let values = type_text(&schema["additionalProperties"]);
            format!("object with values of {values}")
        }
        "" => "any value".to_owned(),
        other => other.to_owned(),
    };
    match schema["pattern"].as_str() {
        // The bar would end the cell of a table.
        Some(pattern) => format!("{kind} `{}`", pattern.replace('|', "\\|")),
        None => kind,
    }
}

/// A value of an example, without what is long.
fn shown(value: &Value) -> String {
    let pretty = serde_json::to_string_pretty(&shortened(value)).expect("JSON");
    let lines: Vec<_> = pretty.lines().collect();
    if lines.len() <= RESULT_LINES_MAX {
        return pretty;
    }
    let left = lines.len() - RESULT_LINES_MAX;
    format!("{}\n… {left} more lines", lines[..RESULT_LINES_MAX].join("\n"))
}

fn shortened(value: &Value) -> Value {
    match value {
        Value::String(text) if text.chars().count() > TEXT_LEN_MAX => {
            let start: String = text.chars().take(TEXT_LEN_SHOWN).collect();
            Value::String(start + "…")
        }
        Value::Array(items) => items.iter().map(shortened).collect(),
        Value::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(name, value)| (name.clone(), shortened(value)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

/// The anchor that a heading gets.
fn anchor(heading: &str) -> String {
    heading.to_lowercase().replace('.', "")
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn map(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}
