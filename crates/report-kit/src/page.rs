//! Reports as one HTML file: nothing from elsewhere, no script.

/// How all reports look.
pub const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;color:#1b1b1b;background:#fff;max-width:1180px;margin:2em auto;padding:0 1em}\
h1{font-size:1.5em;margin-bottom:.2em}h2{font-size:1.1em;margin:1.6em 0 .4em}p{margin:.2em 0}\
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(460px,1fr));gap:1em 2em}\
svg{width:100%;max-width:640px;height:auto;font:12px system-ui,sans-serif;fill:#333}\
.title{font-weight:600;font-size:14px;fill:#1b1b1b}.label{font-size:13px}\
.grid{stroke:#e4e4e4}.axis{stroke:#666;fill:none}\
table{border-collapse:collapse}td,th{padding:.15em .9em .15em 0;text-align:left;font-weight:400}\
th{border-bottom:1px solid #bbb;color:#555}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}\
.note{color:#666}footer{margin-top:2em;color:#666;font-size:.9em}";

/// The beginning of a page, up to its heading. `title` is text.
pub fn head(title: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\"><title>{t}</title>\n<style>{STYLE}</style></head><body>\n<h1>{t}</h1>\n",
        t = escape(title)
    )
}

/// Text, to stand in a page.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text() {
        assert!(head("a<b & \"c\"").contains("<h1>a&lt;b &amp; &quot;c&quot;</h1>"));
    }
}
