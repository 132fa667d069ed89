package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

var readingPods = []rbacv1.PolicyRule{{
	APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "watch"},
}}

func checkGroupKinds(s *session) {
	checkRbacKinds(s)
	checkNetworkingKinds(s)
	namespace := s.namespace
	// The wire format has microseconds.
	moment := metav1.NewMicroTime(time.Unix(1700000000, 123456000))

	checkLifecycle(s, "leases", s.clients.CoordinationV1().Leases(namespace), &coordinationv1.Lease{
		ObjectMeta: named("a-lease"),
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("me"), LeaseDurationSeconds: new(int32(15)), RenewTime: &moment,
		},
	})
	checkLifecycle(s, "events of events.k8s.io", s.clients.EventsV1().Events(namespace), &eventsv1.Event{
		ObjectMeta: named("another-event"), EventTime: moment, Reason: "Because", Action: "Asking",
		Type: corev1.EventTypeWarning, Note: "it was asked for",
		ReportingController: "interop.example/go", ReportingInstance: "go-1",
		Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: "a-pod"},
	})
	checkLifecycle(s, "priorityclasses", s.clients.SchedulingV1().PriorityClasses(), &schedulingv1.PriorityClass{
		ObjectMeta: named("urgent-" + s.name), Value: 1000, Description: "before others",
	})
	checkLifecycle(s, "runtimeclasses", s.clients.NodeV1().RuntimeClasses(), &nodev1.RuntimeClass{
		ObjectMeta: named("sandbox-" + s.name), Handler: "sandbox",
	})
	checkLifecycle(s, "storageclasses", s.clients.StorageV1().StorageClasses(), &storagev1.StorageClass{
		ObjectMeta: named("fast-" + s.name), Provisioner: "interop.example/disk",
		Parameters: map[string]string{"speed": "high"}, AllowVolumeExpansion: new(true),
	})
	checkLifecycle(s, "certificatesigningrequests", s.clients.CertificatesV1().CertificateSigningRequests(), signingRequest(s))
	checkLifecycle(s, "validatingwebhookconfigurations",
		s.clients.AdmissionregistrationV1().ValidatingWebhookConfigurations(),
		&admissionv1.ValidatingWebhookConfiguration{
			ObjectMeta: named("a-validator-" + s.name),
			Webhooks: []admissionv1.ValidatingWebhook{{
				Name:         "validator.interop.example",
				ClientConfig: admissionv1.WebhookClientConfig{URL: new("https://127.0.0.1:1/validate")},
				// The resource does not exist, so the webhook matches no request.
				Rules: []admissionv1.RuleWithOperations{{
					Operations: []admissionv1.OperationType{admissionv1.Create},
					Rule: admissionv1.Rule{
						APIGroups: []string{"absent.example"}, APIVersions: []string{"v1"}, Resources: []string{"nothings"},
					},
				}},
				SideEffects:             new(admissionv1.SideEffectClassNone),
				AdmissionReviewVersions: []string{"v1"},
			}},
		})
}

func checkRbacKinds(s *session) {
	rbac, namespace := s.clients.RbacV1(), s.namespace
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "default"}}

	checkLifecycle(s, "roles", rbac.Roles(namespace), &rbacv1.Role{ObjectMeta: named("a-role"), Rules: readingPods})
	checkLifecycle(s, "rolebindings", rbac.RoleBindings(namespace), &rbacv1.RoleBinding{
		ObjectMeta: named("a-binding"), Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "a-role"},
	})
	checkLifecycle(s, "clusterroles", rbac.ClusterRoles(), &rbacv1.ClusterRole{
		ObjectMeta: named("a-cluster-role-" + s.name), Rules: readingPods,
	})
	checkLifecycle(s, "clusterrolebindings", rbac.ClusterRoleBindings(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: named("a-cluster-binding-" + s.name), Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "a-cluster-role"},
	})
}

func checkNetworkingKinds(s *session) {
	networking, namespace := s.clients.NetworkingV1(), s.namespace
	prefix := networkingv1.PathTypePrefix

	checkLifecycle(s, "ingresses", networking.Ingresses(namespace), &networkingv1.Ingress{
		ObjectMeta: named("an-ingress"),
		Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{
			Host: "interop.example",
			IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
				Paths: []networkingv1.HTTPIngressPath{{
					Path: "/", PathType: &prefix,
					Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
						Name: "a-service", Port: networkingv1.ServiceBackendPort{Number: 80},
					}},
				}},
			}},
		}}},
	})
	checkLifecycle(s, "ingressclasses", networking.IngressClasses(), &networkingv1.IngressClass{
		ObjectMeta: named("a-class-" + s.name),
		Spec:       networkingv1.IngressClassSpec{Controller: "interop.example/ingress"},
	})
	checkLifecycle(s, "networkpolicies", networking.NetworkPolicies(namespace), &networkingv1.NetworkPolicy{
		ObjectMeta: named("a-policy"),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: *selecting("a-pod"),
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{
				Ports: []networkingv1.NetworkPolicyPort{{Port: new(intstr.FromInt32(80))}},
				From:  []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/8"}}},
			}},
		},
	})
	checkLifecycle(s, "endpointslices", s.clients.DiscoveryV1().EndpointSlices(namespace), &discoveryv1.EndpointSlice{
		ObjectMeta: named("a-slice"), AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{"10.1.2.3"}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)},
		}},
		Ports: []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080))}},
	})
}

// signingRequest requests a client certificate for a new key.
func signingRequest(s *session) *certificatesv1.CertificateSigningRequest {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: "somebody"}}
	request, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		panic(err)
	}
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: named("a-request-" + s.name),
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request}),
			SignerName: "interop.example/signer",
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
		},
	}
}
