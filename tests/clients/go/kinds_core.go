package main

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// podSpec is a pod that never runs, since its node and its image do not exist.
func podSpec() corev1.PodSpec {
	quick := int64(5)
	return corev1.PodSpec{
		TerminationGracePeriodSeconds: &quick,
		NodeSelector:                  map[string]string{"nowhere": "found"},
		Containers: []corev1.Container{{
			Name:    "main",
			Image:   "registry.invalid/image:1",
			Command: []string{"sleep", "1"},
			Env: []corev1.EnvVar{
				{Name: "PLAIN", Value: "value"},
				{Name: "NODE", ValueFrom: &corev1.EnvVarSource{
					FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "spec.nodeName"},
				}},
			},
			Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")},
				Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")},
			},
			ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
				HTTPGet: &corev1.HTTPGetAction{Path: "/ready", Port: intstr.FromString("http")},
			}},
			VolumeMounts: []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}},
		}},
		Volumes: []corev1.Volume{{
			Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
		}},
	}
}

func podTemplate(name string) corev1.PodTemplateSpec {
	meta := named(name)
	meta.Name = ""
	spec := podSpec()
	return corev1.PodTemplateSpec{ObjectMeta: meta, Spec: spec}
}

func checkCoreKinds(s *session) {
	core, namespace := s.clients.CoreV1(), s.namespace
	none := int32(0)

	checkLifecycle(s, "configmaps", core.ConfigMaps(namespace), &corev1.ConfigMap{
		ObjectMeta: named("a-configmap"),
		Data:       map[string]string{"key": "välue"}, BinaryData: map[string][]byte{"blob": {0, 255, 1}},
	})
	checkLifecycle(s, "secrets", core.Secrets(namespace), &corev1.Secret{
		ObjectMeta: named("a-secret"),
		Type:       corev1.SecretTypeBasicAuth, Data: map[string][]byte{"username": []byte("me"), "password": {}},
	})
	checkLifecycle(s, "pods", core.Pods(namespace), &corev1.Pod{ObjectMeta: named("a-pod"), Spec: podSpec()})
	checkLifecycle(s, "services", core.Services(namespace), &corev1.Service{
		ObjectMeta: named("a-service"),
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"run": "a-pod"},
			Ports:    []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromString("http")}},
		},
	})
	checkLifecycle(s, "serviceaccounts", core.ServiceAccounts(namespace), &corev1.ServiceAccount{
		ObjectMeta:       named("an-account"),
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: "pull"}},
	})
	checkLifecycle(s, "endpoints", core.Endpoints(namespace), &corev1.Endpoints{
		ObjectMeta: named("some-endpoints"),
		Subsets: []corev1.EndpointSubset{{
			Addresses: []corev1.EndpointAddress{{IP: "10.1.2.3"}},
			Ports:     []corev1.EndpointPort{{Name: "http", Port: 8080, Protocol: corev1.ProtocolTCP}},
		}},
	})
	checkLifecycle(s, "events", core.Events(namespace), &corev1.Event{
		ObjectMeta:     named("an-event"),
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: "a-pod"},
		Reason:         "Because", Message: "it was asked for", Type: corev1.EventTypeNormal, Count: 1,
		Source:        corev1.EventSource{Component: "go"},
		LastTimestamp: metav1.NewTime(time.Unix(1700000000, 0)),
	})
	checkLifecycle(s, "limitranges", core.LimitRanges(namespace), &corev1.LimitRange{
		ObjectMeta: named("a-limit"),
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type: corev1.LimitTypePod,
			Max:  corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8")},
		}}},
	})
	checkLifecycle(s, "resourcequotas", core.ResourceQuotas(namespace), &corev1.ResourceQuota{
		ObjectMeta: named("a-quota"),
		Spec: corev1.ResourceQuotaSpec{
			Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1k")},
		},
	})
	checkLifecycle(s, "podtemplates", core.PodTemplates(namespace), &corev1.PodTemplate{
		ObjectMeta: named("a-template"), Template: podTemplate("a-template"),
	})
	checkLifecycle(s, "replicationcontrollers", core.ReplicationControllers(namespace), &corev1.ReplicationController{
		ObjectMeta: named("a-replicator"),
		Spec: corev1.ReplicationControllerSpec{
			Replicas: &none, Selector: map[string]string{"run": "a-replicator"}, Template: new(podTemplate("a-replicator")),
		},
	})
	checkLifecycle(s, "nodes", core.Nodes(), &corev1.Node{
		ObjectMeta: named("a-node-" + s.name),
		Spec: corev1.NodeSpec{
			PodCIDR: "10.9.0.0/24", PodCIDRs: []string{"10.9.0.0/24"},
		},
	})
}
