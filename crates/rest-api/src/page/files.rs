//! The files of the page, compiled in. `page/` has their sources; `cargo build` needs no npm.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

/// A file of the page, compressed with gzip.
struct File {
    path: &'static str,
    content_type: &'static str,
    gzip: &'static [u8],
}

macro_rules! file {
    ($path:literal, $name:literal, $content_type:literal) => {
        File {
            path: $path,
            content_type: $content_type,
            gzip: include_bytes!(concat!("../../../../page/dist/", $name, ".gz")),
        }
    };
}

const FILES: [File; 5] = [
    file!("/", "index.html", "text/html; charset=utf-8"),
    file!("/page.js", "page.js", "text/javascript; charset=utf-8"),
    file!("/layout.js", "layout.js", "text/javascript; charset=utf-8"),
    file!("/page.css", "page.css", "text/css; charset=utf-8"),
    file!("/icon.svg", "icon.svg", "image/svg+xml"),
];

/// Returns whether a path is a file of the page. Files have no secrets and need no session.
pub fn contains(path: &str) -> bool {
    FILES.iter().any(|file| file.path == path)
}

/// Returns the paths of all files.
pub fn paths() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|file| file.path)
}

/// Returns a file, or 304 if the browser has it already.
pub async fn serve(request: Request) -> Response {
    let Some(file) = FILES.iter().find(|file| file.path == request.uri().path()) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let tag = HeaderValue::try_from(format!("\"{:016x}\"", fnv1a(file.gzip))).expect("ASCII");
    let is_known = request.headers().get(header::IF_NONE_MATCH) == Some(&tag);
    let (status, body) = match is_known {
        true => (StatusCode::NOT_MODIFIED, Body::empty()),
        false => (StatusCode::OK, Body::from(file.gzip)),
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::ETAG, tag);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(file.content_type));
    headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

/// Returns a hash that differs between versions of a file.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_gzip_and_below_the_size_limit() {
        let total: usize = FILES.iter().map(|file| file.gzip.len()).sum();
        assert!(total < 150 * 1024, "{total} bytes");
        assert!(FILES.iter().all(|file| file.gzip.starts_with(&[0x1f, 0x8b])));
    }
}
