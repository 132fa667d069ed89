package main

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func selecting(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"run": name}}
}

// deployment has no replicas, so that no controller updates it repeatedly.
func deployment(name string) *appsv1.Deployment {
	tenth := intstr.FromString("10%")
	return &appsv1.Deployment{
		ObjectMeta: named(name),
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(0)), Selector: selecting(name), Template: podTemplate(name),
			Strategy: appsv1.DeploymentStrategy{
				Type:          appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &tenth},
			},
		},
	}
}

func suspendedJob(name string) batchv1.JobSpec {
	template := podTemplate(name)
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	return batchv1.JobSpec{Suspend: new(true), BackoffLimit: new(int32(2)), Template: template}
}

func checkWorkloadKinds(s *session) {
	apps, batch, namespace := s.clients.AppsV1(), s.clients.BatchV1(), s.namespace

	checkLifecycle(s, "deployments", apps.Deployments(namespace), deployment("a-deployment"))
	checkLifecycle(s, "replicasets", apps.ReplicaSets(namespace), &appsv1.ReplicaSet{
		ObjectMeta: named("a-set"),
		Spec: appsv1.ReplicaSetSpec{
			Replicas: new(int32(0)), Selector: selecting("a-set"), Template: podTemplate("a-set"),
		},
	})
	checkLifecycle(s, "statefulsets", apps.StatefulSets(namespace), &appsv1.StatefulSet{
		ObjectMeta: named("a-stateful"),
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(0)), ServiceName: "stateful", Selector: selecting("a-stateful"),
			Template: podTemplate("a-stateful"),
		},
	})
	checkLifecycle(s, "daemonsets", apps.DaemonSets(namespace), &appsv1.DaemonSet{
		ObjectMeta: named("a-daemon"),
		Spec:       appsv1.DaemonSetSpec{Selector: selecting("a-daemon"), Template: podTemplate("a-daemon")},
	})
	checkLifecycle(s, "controllerrevisions", apps.ControllerRevisions(namespace), &appsv1.ControllerRevision{
		ObjectMeta: named("a-revision"), Revision: 3,
		Data: runtime.RawExtension{Raw: []byte(`{"spec":{"replicas":1}}`)},
	})
	checkLifecycle(s, "jobs", batch.Jobs(namespace), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "a-job", Labels: map[string]string{"run": "a-job"}},
		Spec:       suspendedJob("a-job"),
	})
	checkLifecycle(s, "cronjobs", batch.CronJobs(namespace), &batchv1.CronJob{
		ObjectMeta: named("a-cronjob"),
		Spec: batchv1.CronJobSpec{
			Schedule: "*/5 * * * *", Suspend: new(true), TimeZone: new("Asia/Shanghai"),
			JobTemplate: batchv1.JobTemplateSpec{Spec: suspendedJob("a-cronjob")},
		},
	})
	checkLifecycle(s, "horizontalpodautoscalers", s.clients.AutoscalingV2().HorizontalPodAutoscalers(namespace),
		&autoscalingv2.HorizontalPodAutoscaler{
			ObjectMeta: named("a-scaler"),
			Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
				ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{
					APIVersion: "apps/v1", Kind: "Deployment", Name: "a-deployment",
				},
				MinReplicas: new(int32(1)), MaxReplicas: 5,
				Metrics: []autoscalingv2.MetricSpec{{
					Type: autoscalingv2.ResourceMetricSourceType,
					Resource: &autoscalingv2.ResourceMetricSource{
						Name: corev1.ResourceCPU,
						Target: autoscalingv2.MetricTarget{
							Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(int32(70)),
						},
					},
				}},
			},
		})
	checkLifecycle(s, "poddisruptionbudgets", s.clients.PolicyV1().PodDisruptionBudgets(namespace),
		&policyv1.PodDisruptionBudget{
			ObjectMeta: named("a-budget"),
			Spec: policyv1.PodDisruptionBudgetSpec{
				MinAvailable: new(intstr.FromString("50%")), Selector: selecting("a-budget"),
			},
		})
}
