//! A collector of traces that notes the login of each call and refuses all.

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use std::sync::{Arc, Mutex};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, async_trait};

pub(super) struct Collector {
    pub(super) endpoint: String,
    logins: Logins,
}

#[derive(Clone, Default)]
struct Logins(Arc<Mutex<Vec<String>>>);

// === impl Collector ===

impl Collector {
    pub(super) fn start() -> Self {
        let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let endpoint = format!("http://{}", incoming.local_addr().unwrap());
        let logins = Logins::default();
        let server = Server::builder().add_service(TraceServiceServer::new(logins.clone()));
        tokio::spawn(server.serve_with_incoming(incoming));
        Self { endpoint, logins }
    }

    pub(super) fn was_called_with(&self, login: &str) -> bool {
        self.logins.0.lock().unwrap().iter().any(|found| found == login)
    }
}

#[async_trait]
impl TraceService for Logins {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let login = request.metadata().get("authorization").unwrap().to_str().unwrap();
        self.0.lock().unwrap().push(login.to_owned());
        Err(Status::unauthenticated("no such login"))
    }
}
