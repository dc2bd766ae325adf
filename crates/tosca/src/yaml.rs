//! Values as YAML in block style. Texts are quoted as in JSON, which YAML reads the same.

use serde_json::Value;
use std::fmt::Write;

/// Returns a document. Keys are sorted, so equal values give equal bytes.
pub fn document(comment: &str, value: &Value) -> String {
    let mut text = format!("# {comment}\n");
    write(value, 0, &mut text);
    text
}

fn write(value: &Value, depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let _ = write!(text, "{indent}{key}:");
                write_after(value, depth + 1, text);
            }
        }
        Value::Array(items) => {
            for item in items {
                let _ = write!(text, "{indent}-");
                write_after(item, depth + 1, text);
            }
        }
        scalar => {
            let _ = writeln!(text, "{indent}{scalar}");
        }
    }
}

/// Writes a value behind a key or a dash.
fn write_after(value: &Value, depth: usize, text: &mut String) {
    let is_block = match value {
        Value::Object(map) => !map.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    };
    if is_block {
        text.push('\n');
        write(value, depth, text);
    } else {
        let _ = writeln!(text, " {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nested_values_are_indented_and_texts_quoted() {
        let value = json!({ "b": [{ "x": 1 }, "yes"], "a": {}, "c": "no: \"q\"" });
        let expected = "# n\na: {}\nb:\n  -\n    x: 1\n  - \"yes\"\nc: \"no: \\\"q\\\"\"\n";
        assert_eq!(document("n", &value), expected);
    }
}
