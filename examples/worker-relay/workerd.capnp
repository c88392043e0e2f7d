# The Worker under workerd, as the tests run it: `workerd serve workerd.capnp`, with the addresses from the command line:
#   --socket-addr http=127.0.0.1:8787 --external-addr txmanager=127.0.0.1:8080
using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [
    (name = "main", worker = .relay),
    (name = "txmanager", external = (address = "127.0.0.1:8080", http = ())),
  ],
  sockets = [(name = "http", address = "127.0.0.1:8787", http = (), service = "main")],
);

const relay :Workerd.Worker = (
  modules = [(name = "worker.js", esModule = embed "dist/worker.js")],
  compatibilityDate = "2026-10-01",
  bindings = [
    (name = "TXMANAGER", service = "txmanager"),
    (name = "TXMANAGER_TOKEN", fromEnvironment = "TXMANAGER_TOKEN"),
    (name = "PARENT", fromEnvironment = "PARENT"),
    (name = "INITIAL_BALANCE", text = "100000000000000000000000"),
    (name = "RECOVERY_CONTRACT", fromEnvironment = "RECOVERY_CONTRACT"),
    (name = "RECOVERY_METHOD", fromEnvironment = "RECOVERY_METHOD"),
  ],
);
