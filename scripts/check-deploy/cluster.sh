# shellcheck shell=bash
# The chart in a real API server with its controllers: no scheduler and no kubelet, so no pod runs. Sourced by check-deploy.sh.
#
# The kinds of operators (Prometheus, KEDA) have stand-ins without a schema: their objects are stored, not understood.

chart=deploy/kubernetes/delayq cluster=$work/cluster
mkdir -p "$cluster"
etcd_port=$(free_port) peer_port=$(free_port) api_port=$(free_port)
openssl genrsa -out "$cluster/sa.key" 2048 2> /dev/null
echo 'check,admin,admin,"system:masters"' > "$cluster/tokens.csv"
cat > "$cluster/kubeconfig" << YAML
apiVersion: v1
kind: Config
clusters: [{ name: c, cluster: { server: "https://127.0.0.1:$api_port", insecure-skip-tls-verify: true } }]
users: [{ name: u, user: { token: check } }]
contexts: [{ name: c, context: { cluster: c, user: u } }]
current-context: c
YAML
export KUBECONFIG=$cluster/kubeconfig

start cluster-etcd etcd --data-dir "$cluster/etcd" \
    --listen-client-urls "http://127.0.0.1:$etcd_port" --advertise-client-urls "http://127.0.0.1:$etcd_port" \
    --listen-peer-urls "http://127.0.0.1:$peer_port" --initial-advertise-peer-urls "http://127.0.0.1:$peer_port" \
    --initial-cluster "default=http://127.0.0.1:$peer_port"
start kube-apiserver kube-apiserver --etcd-servers "http://127.0.0.1:$etcd_port" --bind-address 127.0.0.1 \
    --secure-port "$api_port" --advertise-address 127.0.0.1 --cert-dir "$cluster/certs" \
    --service-account-key-file "$cluster/sa.key" --service-account-signing-key-file "$cluster/sa.key" \
    --service-account-issuer https://kubernetes.default.svc --authorization-mode RBAC \
    --token-auth-file "$cluster/tokens.csv" --service-cluster-ip-range 10.0.0.0/24 --endpoint-reconciler-type none \
    --allow-privileged=true
soon "the API server is ready" kubectl get --raw /readyz
start kube-controller-manager kube-controller-manager --kubeconfig "$KUBECONFIG" --bind-address 127.0.0.1 \
    --secure-port "$(free_port)" --service-account-private-key-file "$cluster/sa.key" --leader-elect=false

crd() { # GROUP KIND PLURAL VERSION
    kubectl apply --filename - << YAML
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: $3.$1 }
spec:
  group: $1
  scope: Namespaced
  names: { kind: $2, plural: $3 }
  versions:
    - name: $4
      served: true
      storage: true
      schema: { openAPIV3Schema: { type: object, x-kubernetes-preserve-unknown-fields: true } }
YAML
}
crd monitoring.coreos.com ServiceMonitor servicemonitors v1 > "$work/crd.log"
crd monitoring.coreos.com PrometheusRule prometheusrules v1 >> "$work/crd.log"
crd keda.sh ScaledObject scaledobjects v1alpha1 >> "$work/crd.log"
for kind in servicemonitors.monitoring.coreos.com scaledobjects.keda.sh prometheusrules.monitoring.coreos.com; do
    kubectl wait --for condition=established --timeout 60s "crd/$kind" >> "$work/crd.log"
done

# A namespace that refuses what is not restricted, and one for the spool on the host.
for namespace in restricted privileged; do
    kubectl create namespace $namespace > "$work/namespace.log"
    kubectl label namespace $namespace "pod-security.kubernetes.io/enforce=$namespace" \
        pod-security.kubernetes.io/warn=restricted > "$work/namespace.log"
    soon "the controllers serve the namespace $namespace" kubectl get serviceaccount default --namespace $namespace
done
k() { kubectl --namespace restricted "$@"; }

# Every variant of the chart, field by field. A warning is a fault, except for the spool on the host, which needs
# hostPath and a container that gives the folder to its user. A pod needs its service account.
kubectl create serviceaccount delayq --namespace privileged --save-config > "$work/serviceaccount.log"
dry_run() { # NAMESPACE FILE
    local words
    words=$(kubectl apply --namespace "$1" --dry-run=server --validate=strict --filename "$2" 2>&1 > /dev/null) ||
        { echo "$words"; return 1; }
    words=$(grep -v 'volume "spool" uses restricted volume type "hostPath"\|^$' <<< "$words" || true)
    [ -z "$words" ] || { echo "$words"; return 1; }
}
scripts/check-chart.sh "$cluster/chart" > "$work/chart.log" 2>&1 || { cat "$work/chart.log"; fail "the chart is rendered"; }
for file in "$cluster"/chart/*.yaml deploy/kubernetes/*.yaml; do
    sed 's/namespace: delayq$/namespace: privileged/' "$file" > "$cluster/variant.yaml"
    holds "strict server dry run: ${file#"$cluster"/}" dry_run privileged "$cluster/variant.yaml"
done
pod() { # FIELD: a pod with it
    printf '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"},"spec":{"containers":[{"name":"x","image":"x",%s}]}}' "$1"
}
for field in '"nam":1' '"securityContext":{"privileged":true}'; do
    pod "$field" > "$cluster/pod.json"
    if dry_run restricted "$cluster/pod.json" > /dev/null; then fail "the server refuses $field"; fi
done
claim "the server refuses an unknown field, and a privileged pod in the restricted namespace"

release() { helm "$1" delayq $chart --namespace restricted "${@:2}" 2>&1; }
# pods COMPONENT COUNT: the number of pods; their admission proves that they are restricted.
pods() { [ "$(k get pods --selector "app.kubernetes.io/component=$1" --output name | wc -l)" -eq "$2" ]; }
# The hook waits for a Job that nothing runs here; the dry run covered the hook's objects.
holds "helm install in the restricted namespace" release install --no-hooks
soon "its two timers are admitted" pods timer 2
soon "its two forwarders are admitted" pods forwarder 2
mounted=$(k get pods --output 'jsonpath={.items[*].spec.volumes[*].name}')
if grep -q kube-api-access <<< "$mounted"; then fail "no pod has a token of the API server"; fi
claim "no pod has a token of the API server"

replica_sets() { [ "$(k get replicasets --selector app.kubernetes.io/component=timer --output name | wc -l)" -eq "$1" ]; }
# No pod ever becomes ready here, so a rollout begins and does not end.
holds "helm upgrade" release upgrade --no-hooks --set timer.replicas=3
soon "it scales the timers" pods timer 3
holds "helm rollback" helm rollback delayq 1 --namespace restricted --no-hooks
soon "it takes the timers back" pods timer 2
holds "helm upgrade of the configuration" release upgrade --no-hooks --set-string 'config=[deployment]
shards = 8'
soon "it rolls new timers out" replica_sets 2

as=system:serviceaccount:restricted:delayq
k get serviceaccount delayq > "$work/serviceaccount.log" || fail "the chart has a service account"
for asked in "get secrets" "create pods" "list configmaps" "update deployments.apps"; do
    # shellcheck disable=SC2086
    if k auth can-i $asked --as $as > /dev/null 2>&1; then fail "the service account may not $asked"; fi
done
k auth can-i get secrets > "$work/can-i.log" || fail "the administrator may get secrets"
claim "auth can-i: the service account may do nothing"

holds "helm uninstall" helm uninstall delayq --namespace restricted --no-hooks
soon "no pod is left" pods timer 0
