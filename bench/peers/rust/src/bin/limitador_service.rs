//! Envoy's rate limit service on limitador's library, its counters in memory:
//!
//!     limitador-service PORT DOMAIN KEY THREADS
//!
//! One limit, of 4294967295 a year for each value of KEY. The project's own server is not to be had as a package; this answers as it does,
//! with the same library, the same gRPC stack (tonic) and the same context for each descriptor, and leaves out its metrics and traces.

use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_server::{
    RateLimitService, RateLimitServiceServer,
};
use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use limitador::limit::{Context, Limit};
use limitador::RateLimiter;
use std::collections::HashMap;
use tonic::{Request, Response, Status};

struct Service {
    limiter: RateLimiter,
}

#[tonic::async_trait]
impl RateLimitService for Service {
    async fn should_rate_limit(&self, request: Request<RateLimitRequest>) -> Result<Response<RateLimitResponse>, Status> {
        let request = request.into_inner();
        let values: Vec<HashMap<String, String>> = request
            .descriptors
            .into_iter()
            .map(|one| one.entries.into_iter().map(|entry| (entry.key, entry.value)).collect())
            .collect();
        let mut context = Context::default();
        context.list_binding("descriptors".to_string(), values);
        let hits = u64::from(request.hits_addend.max(1));
        let result = self
            .limiter
            .check_rate_limited_and_update(&request.domain.into(), &context, hits)
            .map_err(|error| Status::unavailable(error.to_string()))?;
        let code = if result.limited { Code::OverLimit } else { Code::Ok };
        Ok(Response::new(RateLimitResponse { overall_code: code.into(), ..Default::default() }))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, port, domain, key, threads] = &arguments[..] else {
        eprintln!("usage: limitador-service PORT DOMAIN KEY THREADS");
        std::process::exit(2)
    };
    let limiter = RateLimiter::new(1_000_000);
    let variable = format!("descriptors[0].{key}").as_str().try_into()?;
    limiter.add_limit(Limit::new(domain.as_str(), 4_294_967_295, 31_536_000, Vec::new(), vec![variable]));
    let service = RateLimitServiceServer::new(Service { limiter });
    let address = format!("127.0.0.1:{port}").parse()?;
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads.parse()?)
        .enable_all()
        .build()?
        .block_on(tonic::transport::Server::builder().add_service(service).serve(address))?;
    Ok(())
}
