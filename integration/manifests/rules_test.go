package manifests

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// rule is what a kustomization must have. spoil takes it away, one way after the other.
type rule struct {
	says  string
	check func(objects) error
	spoil []func(objects)
}

// unless returns an error with a reason if something is not the case.
func unless(is bool, format string, args ...any) error {
	if is {
		return nil
	}
	return fmt.Errorf(format, args...)
}

// eachServer checks the StatefulSets, which are three.
func eachServer(check func(*appsv1.StatefulSet) error) func(objects) error {
	return func(all objects) error {
		sets := of[*appsv1.StatefulSet](all)
		errs := []error{unless(len(sets) == 3, "%d StatefulSets", len(sets))}
		for _, s := range sets {
			if err := check(s); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", s.Name, err))
			}
		}
		return errors.Join(errs...)
	}
}

// workload is what has Pods.
type workload struct {
	name string
	of   runtime.Object
	pod  *corev1.PodTemplateSpec
}

func workloads(all objects) (found []workload) {
	for _, o := range all {
		switch o := o.(type) {
		case *appsv1.StatefulSet:
			found = append(found, workload{o.Name, o, &o.Spec.Template})
		case *appsv1.Deployment:
			found = append(found, workload{o.Name, o, &o.Spec.Template})
		case *batchv1.Job:
			found = append(found, workload{o.Name, o, &o.Spec.Template})
		case *batchv1.CronJob:
			found = append(found, workload{o.Name, o, &o.Spec.JobTemplate.Spec.Template})
		}
	}
	return found
}

// eachPod checks what has Pods, once for each container, as if it were the Pod's only one. There is some.
func eachPod(check func(workload) error) func(objects) error {
	return func(all objects) error {
		found := workloads(all)
		errs := []error{unless(len(found) > 0, "nothing runs")}
		for _, w := range found {
			for i, c := range w.pod.Spec.Containers {
				alone := w
				alone.pod = w.pod.DeepCopy()
				alone.pod.Spec.Containers = alone.pod.Spec.Containers[i : i+1]
				if err := check(alone); err != nil {
					errs = append(errs, fmt.Errorf("%s, %s: %w", w.name, c.Name, err))
				}
			}
		}
		return errors.Join(errs...)
	}
}

func matches(selector *metav1.LabelSelector, l map[string]string) bool {
	s, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && !s.Empty() && s.Matches(labels.Set(l))
}

// value returns the value of a variable of the first container. It is "" if there is none.
func value(w workload, name string) string {
	for _, e := range w.pod.Spec.Containers[0].Env {
		if e.Name == name {
			return e.Value
		}
	}
	return ""
}

// flag returns the value of --name=value, and "" if there is none.
func flag(w workload, name string) string {
	for _, a := range w.pod.Spec.Containers[0].Args {
		if v, ok := strings.CutPrefix(a, "--"+name+"="); ok {
			return v
		}
	}
	return ""
}

func seconds(d string) int64 {
	parsed, _ := time.ParseDuration(d)
	return int64(parsed / time.Second)
}

func grace(w workload) int64 {
	if g := w.pod.Spec.TerminationGracePeriodSeconds; g != nil {
		return *g
	}
	return 30 // the default of Kubernetes
}

// settings returns the lines of configuration that a server reads: its files, in their order.
func settings(all objects, files ...string) map[string]string {
	found := make(map[string]string)
	for _, c := range of[*corev1.ConfigMap](all) {
		for _, f := range files {
			for line := range strings.Lines(c.Data[f]) {
				if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name != "#" {
					found[name] = value
				}
			}
		}
	}
	return found
}

// lines requires settings. A value of "" is one that must not be there.
func lines(want map[string]string, files ...string) func(objects) error {
	return func(all objects) error {
		found := settings(all, files...)
		var errs []error
		for name, value := range want {
			errs = append(errs, unless(found[name] == value, "%s %q, and not %q", name, found[name], value))
		}
		errs = append(errs, eachServer(func(s *appsv1.StatefulSet) error {
			var read []string
			for _, a := range s.Spec.Template.Spec.Containers[0].Args {
				if f, ok := strings.CutPrefix(a, "/etc/redlock/conf/"); ok {
					read = append(read, f)
				}
			}
			return unless(slices.Equal(files, read), "reads %q, and not %q", read, files)
		})(all))
		return errors.Join(errs...)
	}
}

func spoilServer(spoil func(*appsv1.StatefulSet)) func(objects) {
	return func(all objects) { spoil(of[*appsv1.StatefulSet](all)[1]) }
}

func spoilPod(spoil func(*corev1.PodSpec)) func(objects) {
	return func(all objects) { spoil(&workloads(all)[0].pod.Spec) }
}

func spoilLine(file, from, to string) func(objects) {
	return func(all objects) {
		c := of[*corev1.ConfigMap](all)[0]
		c.Data[file] = strings.Replace(c.Data[file], from, to, 1)
	}
}

// servers are the rules of every kustomization of servers.
var servers = []rule{
	{
		"three StatefulSets of one replica each, which are replaced by hand alone",
		eachServer(func(s *appsv1.StatefulSet) error {
			return errors.Join(
				unless(s.Spec.Replicas != nil && *s.Spec.Replicas == 1, "not one replica"),
				unless(s.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType, "a change restarts it"),
				unless(matches(s.Spec.Selector, s.Spec.Template.Labels), "it does not select its Pod"),
			)
		}),
		[]func(objects){
			spoilServer(func(s *appsv1.StatefulSet) { *s.Spec.Replicas = 3 }),
			spoilServer(func(s *appsv1.StatefulSet) { s.Spec.UpdateStrategy.Type = "" }),
			spoilServer(func(s *appsv1.StatefulSet) { delete(s.Spec.Template.Labels, "redlock-server") }),
		},
	},
	{
		"no StatefulSet and no Service selects another one's Pod",
		func(all objects) error {
			var errs []error
			for _, s := range of[*appsv1.StatefulSet](all) {
				var selected, served []string
				for _, other := range of[*appsv1.StatefulSet](all) {
					if matches(other.Spec.Selector, s.Spec.Template.Labels) {
						selected = append(selected, other.Name)
					}
				}
				for _, service := range of[*corev1.Service](all) {
					if matches(&metav1.LabelSelector{MatchLabels: service.Spec.Selector}, s.Spec.Template.Labels) {
						served = append(served, service.Name)
					}
				}
				own := []string{s.Name}
				errs = append(errs, unless(slices.Equal(own, selected) && slices.Equal(own, served) && s.Spec.ServiceName == s.Name,
					"%s: selected by %q, served by %q", s.Name, selected, served))
			}
			return errors.Join(errs...)
		},
		[]func(objects){
			func(all objects) { delete(of[*corev1.Service](all)[0].Spec.Selector, "redlock-server") },
			spoilServer(func(s *appsv1.StatefulSet) { delete(s.Spec.Selector.MatchLabels, "redlock-server") }),
		},
	},
	{
		"each Service has an address of its own, and leads to its server also while that is not ready",
		func(all objects) error {
			services := of[*corev1.Service](all)
			errs := []error{unless(len(services) == 3, "%d Services", len(services))}
			for _, s := range services {
				errs = append(errs,
					unless(s.Spec.Type == corev1.ServiceTypeClusterIP && s.Spec.ClusterIP == "",
						"%s: headless, or open to the outside", s.Name),
					unless(s.Spec.PublishNotReadyAddresses, "%s: a late probe cuts holders off", s.Name))
			}
			return errors.Join(errs...)
		},
		[]func(objects){
			func(all objects) { of[*corev1.Service](all)[2].Spec.PublishNotReadyAddresses = false },
			func(all objects) { of[*corev1.Service](all)[0].Spec.Type = corev1.ServiceTypeLoadBalancer },
		},
	},
	{
		"no two servers in one zone",
		eachServer(func(s *appsv1.StatefulSet) error {
			affinity := s.Spec.Template.Spec.Affinity
			if affinity == nil || affinity.PodAntiAffinity == nil {
				return errors.New("no anti-affinity")
			}
			for _, term := range affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
				if term.TopologyKey == corev1.LabelTopologyZone && onAllServers(term.LabelSelector) {
					return nil
				}
			}
			return errors.New("no anti-affinity over zones that is required")
		}),
		[]func(objects){
			spoilServer(func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Affinity = nil }),
			spoilServer(func(s *appsv1.StatefulSet) {
				apart(s).TopologyKey = corev1.LabelHostname
			}),
			spoilServer(func(s *appsv1.StatefulSet) {
				apart(s).LabelSelector.MatchLabels["redlock-server"] = "b"
			}),
		},
	},
	{
		"one budget over all servers lets one of them go at a time",
		func(all objects) error {
			budgets := of[*policyv1.PodDisruptionBudget](all)
			if len(budgets) != 1 {
				return fmt.Errorf("%d budgets", len(budgets)) // with two on one Pod it can't be evicted at all
			}
			b := budgets[0].Spec
			return errors.Join(
				unless(b.MaxUnavailable != nil && b.MaxUnavailable.String() == "1" && b.MinAvailable == nil, "not one at a time"),
				unless(onAllServers(b.Selector), "not over all servers"),
				unless(b.UnhealthyPodEvictionPolicy == nil || *b.UnhealthyPodEvictionPolicy == policyv1.IfHealthyBudget,
					"a server that loads goes beside another one"),
			)
		},
		[]func(objects){
			func(all objects) { of[*policyv1.PodDisruptionBudget](all)[0].Spec.MaxUnavailable.IntVal = 2 },
			func(all objects) {
				of[*policyv1.PodDisruptionBudget](all)[0].Spec.Selector.MatchLabels["redlock-server"] = "a"
			},
			func(all objects) {
				*of[*policyv1.PodDisruptionBudget](all)[0].Spec.UnhealthyPodEvictionPolicy = policyv1.AlwaysAllow
			},
		},
	},
	{
		"no probe restarts a server that loads or is slow, and one says whether it answers",
		eachServer(func(s *appsv1.StatefulSet) error {
			c := s.Spec.Template.Spec.Containers[0]
			return errors.Join(
				unless(c.LivenessProbe == nil && c.StartupProbe == nil, "a probe restarts it"),
				unless(c.ReadinessProbe != nil && c.ReadinessProbe.Exec != nil &&
					strings.Contains(strings.Join(c.ReadinessProbe.Exec.Command, " "),
						"= PONG"), "the budget does not know whether it answers"),
			)
		}),
		[]func(objects){
			spoilServer(func(s *appsv1.StatefulSet) {
				s.Spec.Template.Spec.Containers[0].LivenessProbe = s.Spec.Template.Spec.Containers[0].ReadinessProbe
			}),
			spoilServer(func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Containers[0].StartupProbe = &corev1.Probe{} }),
			spoilServer(func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Containers[0].ReadinessProbe = nil }),
		},
	},
	{
		"the container has memory for maxmemory, a rewrite, and as much again",
		func(all objects) error {
			most, err := strconv.Atoi(strings.TrimSuffix(settings(all, "redis.conf")["maxmemory"], "mb"))
			if err != nil {
				return err
			}
			return eachServer(func(s *appsv1.StatefulSet) error {
				r := s.Spec.Template.Spec.Containers[0].Resources
				return unless(r.Limits.Memory().Value() >= int64(4*most)<<20 && r.Requests.Memory().Equal(*r.Limits.Memory()),
					"%v for %d MB", r.Limits.Memory(), most)
			})(all)
		},
		[]func(objects){
			spoilLine("redis.conf", "maxmemory 128mb", "maxmemory 256mb"),
			spoilLine("redis.conf", "maxmemory 128mb", ""),
		},
	},
	{
		"only namespaces with a label reach the servers, and a server connects to nothing",
		func(all objects) error {
			policies := of[*networkingv1.NetworkPolicy](all)
			if len(policies) != 1 {
				return fmt.Errorf("%d policies", len(policies))
			}
			p := policies[0].Spec
			errs := []error{
				unless(onAllServers(&p.PodSelector), "not over all servers"),
				unless(slices.Contains(p.PolicyTypes, networkingv1.PolicyTypeEgress) && len(p.Egress) == 0,
					"a server connects elsewhere"),
				unless(slices.Contains(p.PolicyTypes, networkingv1.PolicyTypeIngress) && len(p.Ingress) == 1,
					"others reach the servers"),
			}
			for _, i := range p.Ingress {
				errs = append(errs, unless(len(i.From) == 1 && len(i.Ports) == 1 && i.From[0].NamespaceSelector != nil &&
					len(i.From[0].NamespaceSelector.MatchLabels) == 1, "others reach the servers"))
			}
			return errors.Join(errs...)
		},
		[]func(objects){
			func(all objects) { of[*networkingv1.NetworkPolicy](all)[0].Spec.Ingress[0].From = nil },
			func(all objects) {
				p := of[*networkingv1.NetworkPolicy](all)[0]
				p.Spec.Egress = append(p.Spec.Egress, networkingv1.NetworkPolicyEgressRule{})
			},
		},
	},
	{
		"a full server refuses, it has no snapshots, and follows nobody",
		func(all objects) error {
			found := settings(all, "redis.conf")
			return errors.Join(
				unless(found["maxmemory-policy"] == "noeviction", "it evicts"),
				unless(found["save"] == `""`, "a failed snapshot refuses all writes"),
				unless(!slices.ContainsFunc(slices.Collect(maps.Keys(found)),
					regexp.MustCompile("replicaof|cluster|rename-command").MatchString),
					"a replica, a Cluster, or renamed commands"),
			)
		},
		[]func(objects){
			spoilLine("redis.conf", "noeviction", "volatile-lru"),
			spoilLine("redis.conf", `save ""`, "save 60 1"),
			spoilLine("redis.conf", "maxmemory 128mb", "replicaof redlock-a 6379"),
		},
	},
}

// apart is the first term by which a server's Pod is kept from others.
func apart(s *appsv1.StatefulSet) *corev1.PodAffinityTerm {
	return &s.Spec.Template.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0]
}

// onAllServers reports whether a selector takes the three servers, and not one of them alone.
func onAllServers(s *metav1.LabelSelector) bool {
	return s != nil && maps.Equal(s.MatchLabels, map[string]string{"app.kubernetes.io/name": "redlock-server"}) &&
		len(s.MatchExpressions) == 0
}

// kept are the rules of servers that keep what they acknowledge.
func kept(files ...string) []rule {
	return []rule{
		{
			"what is acknowledged is on the disk",
			lines(map[string]string{"appendonly": "yes", "appendfsync": "always", "no-appendfsync-on-rewrite": "no"}, files...),
			[]func(objects){
				spoilLine("redis.conf", "appendonly yes", "appendonly no"),
				spoilLine("redis.conf", "appendfsync always", "appendfsync everysec"),
			},
		},
		{
			"each server has a volume of its own, which is retained",
			eachServer(func(s *appsv1.StatefulSet) error {
				retained := s.Spec.PersistentVolumeClaimRetentionPolicy
				return errors.Join(
					unless(len(s.Spec.VolumeClaimTemplates) == 1 && s.Spec.VolumeClaimTemplates[0].Name == mountedAt(s, "/data"),
						"no volume at /data"),
					unless(retained != nil && retained.WhenDeleted == appsv1.RetainPersistentVolumeClaimRetentionPolicyType &&
						retained.WhenScaled == appsv1.RetainPersistentVolumeClaimRetentionPolicyType, "it is not retained"),
				)
			}),
			[]func(objects){
				spoilServer(func(s *appsv1.StatefulSet) { s.Spec.VolumeClaimTemplates = nil }),
				spoilServer(func(s *appsv1.StatefulSet) { s.Spec.PersistentVolumeClaimRetentionPolicy = nil }),
			},
		},
	}
}

func mountedAt(s *appsv1.StatefulSet, path string) string {
	for _, m := range s.Spec.Template.Spec.Containers[0].VolumeMounts {
		if m.MountPath == path {
			return m.Name
		}
	}
	return ""
}

// underTLS are the rules of servers under TLS.
var underTLS = []rule{
	{
		"there is no port without TLS",
		lines(map[string]string{"port": "0", "tls-port": "6379"}, "redis.conf", "tls.conf"),
		[]func(objects){spoilLine("tls.conf", "port 0", "port 6380")},
	},
	{
		"each server has a certificate of its own",
		eachServer(func(s *appsv1.StatefulSet) error {
			for _, v := range s.Spec.Template.Spec.Volumes {
				if v.Name == mountedAt(s, "/etc/redlock/tls") && v.Secret != nil {
					letter := s.Spec.Template.Labels["redlock-server"]
					return unless(v.Secret.SecretName == "redlock-server-"+letter+"-tls", "it has %s", v.Secret.SecretName)
				}
			}
			return errors.New("it has no certificate")
		}),
		[]func(objects){
			spoilServer(func(s *appsv1.StatefulSet) { s.Spec.Template.Labels["redlock-server"] = "c" }),
			spoilServer(func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Volumes = nil }),
		},
	},
}

// underGuard are the rules of servers that keep nothing.
var underGuard = []rule{
	{
		"nothing is kept, and nothing is waited for",
		lines(map[string]string{"appendonly": "no", "save": `""`}, "redis.conf", "guard.conf"),
		[]func(objects){spoilLine("guard.conf", "appendonly no", "")},
	},
	{
		"no volume outlives the Pod",
		eachServer(func(s *appsv1.StatefulSet) error {
			return unless(len(s.Spec.VolumeClaimTemplates) == 0, "it has a volume")
		}),
		[]func(objects){spoilServer(func(s *appsv1.StatefulSet) {
			s.Spec.VolumeClaimTemplates = append(s.Spec.VolumeClaimTemplates, corev1.PersistentVolumeClaim{})
		})},
	},
}

// everyPod are the rules of all that runs.
var everyPod = []rule{
	{
		"requests, and no CPU limit",
		eachPod(func(w workload) error {
			var errs []error
			for _, c := range append(slices.Clone(w.pod.Spec.Containers), w.pod.Spec.InitContainers...) {
				errs = append(errs,
					unless(!c.Resources.Requests.Cpu().IsZero() && !c.Resources.Requests.Memory().IsZero(), "%s requests nothing",
						c.Name),
					unless(c.Resources.Limits.Cpu().IsZero(), "%s has a CPU limit", c.Name))
			}
			return errors.Join(errs...)
		}),
		[]func(objects){
			spoilPod(func(p *corev1.PodSpec) {
				p.Containers[0].Resources.Limits[corev1.ResourceCPU] = p.Containers[0].Resources.Requests[corev1.ResourceCPU]
			}),
			spoilPod(func(p *corev1.PodSpec) { p.Containers[0].Resources.Requests = nil }),
		},
	},
	{
		"the restricted Pod Security Standard, and no token of the API",
		eachPod(func(w workload) error {
			p := w.pod.Spec
			s, c := p.SecurityContext, p.Containers[0].SecurityContext
			return errors.Join(
				unless(p.AutomountServiceAccountToken != nil && !*p.AutomountServiceAccountToken, "it has a token of the API"),
				unless(s != nil && s.RunAsNonRoot != nil && *s.RunAsNonRoot && s.SeccompProfile != nil, "it may be root"),
				unless(c != nil && c.AllowPrivilegeEscalation != nil && !*c.AllowPrivilegeEscalation &&
					c.Capabilities != nil && slices.Contains(c.Capabilities.Drop, "ALL") &&
					c.ReadOnlyRootFilesystem != nil && *c.ReadOnlyRootFilesystem, "its container may do more than it needs"),
			)
		}),
		[]func(objects){
			spoilPod(func(p *corev1.PodSpec) { p.SecurityContext = nil }),
			spoilPod(func(p *corev1.PodSpec) { p.AutomountServiceAccountToken = nil }),
			spoilPod(func(p *corev1.PodSpec) { *p.Containers[0].SecurityContext.AllowPrivilegeEscalation = true }),
		},
	},
	{
		"no Secret, and no password in plain text",
		func(all objects) error {
			errs := []error{unless(len(of[*corev1.Secret](all)) == 0, "a Secret")}
			for _, w := range workloads(all) {
				for _, c := range w.pod.Spec.Containers {
					said := strings.Join(append(append(slices.Clone(c.Command), c.Args...), values(c)...), " ")
					errs = append(errs, unless(!regexp.MustCompile(`rediss?://|--nodes[ =]|requirepass|>`).MatchString(said),
						"%s: %s", w.name, said))
				}
			}
			return errors.Join(errs...)
		},
		[]func(objects){
			spoilPod(func(p *corev1.PodSpec) {
				p.Containers[0].Env = append(p.Containers[0].Env,
					corev1.EnvVar{Name: "REDLOCK_NODES", Value: "redis://app:secret@redlock-a"})
			}),
			spoilPod(func(p *corev1.PodSpec) {
				p.Containers[0].Args = append(p.Containers[0].Args, "--requirepass", "secret")
			}),
		},
	},
}

func values(c corev1.Container) (all []string) {
	for _, e := range c.Env {
		all = append(all, e.Value)
	}
	return all
}

// clients are the rules of every kustomization of clients.
var clients = []rule{
	{
		"each client reads its nodes from a file of a Secret, and has the prefix of the rights",
		eachPod(func(w workload) error {
			file := value(w, "REDLOCK_NODES_FILE")
			for _, m := range w.pod.Spec.Containers[0].VolumeMounts {
				for _, v := range w.pod.Spec.Volumes {
					if v.Name == m.Name && v.Secret != nil && file == m.MountPath+"/nodes" {
						return unless(value(w, "REDLOCK_PREFIX") == "app/", "no prefix")
					}
				}
			}
			return fmt.Errorf("it reads %q", file)
		}),
		[]func(objects){
			spoilPod(func(p *corev1.PodSpec) { p.Containers[0].VolumeMounts = nil }),
			spoilPod(func(p *corev1.PodSpec) { p.Containers[0].Env = p.Containers[0].Env[:1] }),
		},
	},
	{
		"the doctor runs once, as itself and as the user of services, and says the same again",
		func(all objects) error {
			for _, j := range of[*batchv1.Job](all) {
				if c := j.Spec.Template.Spec.Containers[0]; c.Args[0] == "doctor" && !slices.Contains(c.Args, "--admit") {
					return errors.Join(
						unless(j.Spec.BackoffLimit != nil && *j.Spec.BackoffLimit == 0, "it is repeated"),
						unless(slices.Equal(nodesOf(j.Spec.Template.Spec), []string{"redlock-doctor", "redlock-nodes"}), "as others"))
				}
			}
			return errors.New("no doctor")
		},
		[]func(objects){
			func(all objects) {
				*of[*batchv1.Job](all)[0].Spec.BackoffLimit = 6
				*last(of[*batchv1.Job](all)).Spec.BackoffLimit = 6
			},
			func(all objects) {
				for _, j := range of[*batchv1.Job](all) {
					for i, v := range j.Spec.Template.Spec.Volumes {
						if v.Name == "app-nodes" {
							j.Spec.Template.Spec.Volumes[i].Secret.SecretName = "redlock-doctor"
						}
					}
				}
			},
		},
	},
	{
		"a CronJob of several clusters works in one of them, and tries again only if nothing has run",
		func(all objects) error {
			jobs := of[*batchv1.CronJob](all)
			if len(jobs) != 1 {
				return fmt.Errorf("%d CronJobs", len(jobs))
			}
			s := jobs[0].Spec
			job, w := s.JobTemplate.Spec, workloadOf(jobs[0])
			var again []int32
			disrupted := false
			if job.PodFailurePolicy != nil && len(job.PodFailurePolicy.Rules) == 2 {
				r := job.PodFailurePolicy.Rules[1]
				disrupted = r.Action == batchv1.PodFailurePolicyActionFailJob && len(r.OnPodConditions) == 1 &&
					r.OnPodConditions[0].Type == corev1.DisruptionTarget && r.OnPodConditions[0].Status == corev1.ConditionTrue
				if r := job.PodFailurePolicy.Rules[0]; r.Action == batchv1.PodFailurePolicyActionFailJob && r.OnExitCodes != nil &&
					r.OnExitCodes.Operator == batchv1.PodFailurePolicyOnExitCodesOpNotIn &&
					r.OnExitCodes.ContainerName != nil && *r.OnExitCodes.ContainerName == job.Template.Spec.Containers[0].Name {
					again = r.OnExitCodes.Values
				}
			}
			return errors.Join(
				unless(s.ConcurrencyPolicy == batchv1.ForbidConcurrent && s.TimeZone != nil, "two at a time, or at other times"),
				unless(slices.Equal(again, []int32{69, 75}), "after %v it is tried again", again),
				unless(disrupted, "it is tried again when its machine was lost, where it may have run"),
				unless(job.Template.Spec.RestartPolicy == corev1.RestartPolicyNever, "the kubelet starts it again"),
				unless(flag(w, "wait") == "0" && flag(w, "skip-status") == "0" && seconds(flag(w, "min-hold")) >= 60,
					"the others wait, fail, or work later"),
				unless(latestAttempt(s)+30 <= seconds(flag(w, "min-hold")), "an attempt may come %d s late, and half a minute later "+
					"with clocks and Pods that start: the minimum hold of %s is over then", latestAttempt(s), flag(w, "min-hold")),
				unless(grace(w) > seconds(flag(w, "ttl")) && seconds(flag(w, "ttl")) >= 10, "%d s of grace for a TTL of %s",
					grace(w), flag(w, "ttl")),
			)
		},
		[]func(objects){
			func(all objects) { of[*batchv1.CronJob](all)[0].Spec.ConcurrencyPolicy = batchv1.AllowConcurrent },
			func(all objects) { of[*batchv1.CronJob](all)[0].Spec.JobTemplate.Spec.PodFailurePolicy = nil },
			func(all objects) {
				r := of[*batchv1.CronJob](all)[0].Spec.JobTemplate.Spec.PodFailurePolicy.Rules[0].OnExitCodes
				r.Values = append(r.Values, 74)
			},
			func(all objects) {
				p := of[*batchv1.CronJob](all)[0].Spec.JobTemplate.Spec.PodFailurePolicy
				p.Rules[1].Action = batchv1.PodFailurePolicyActionCount
			},
			func(all objects) {
				p := &of[*batchv1.CronJob](all)[0].Spec.JobTemplate.Spec.Template.Spec
				*p.TerminationGracePeriodSeconds = 30
			},
			func(all objects) {
				c := &of[*batchv1.CronJob](all)[0].Spec.JobTemplate.Spec.Template.Spec.Containers[0]
				c.Args = slices.DeleteFunc(c.Args, func(a string) bool { return strings.HasPrefix(a, "--min-hold") })
			},
			func(all objects) { *of[*batchv1.CronJob](all)[0].Spec.StartingDeadlineSeconds = 60 },
			func(all objects) { *of[*batchv1.CronJob](all)[0].Spec.JobTemplate.Spec.BackoffLimit = 3 },
		},
	},
	{
		"a service has time to stop, is ready by Healthy, and never restarts because of it",
		func(all objects) error {
			deployments := of[*appsv1.Deployment](all)
			if len(deployments) != 1 {
				return fmt.Errorf("%d Deployments", len(deployments))
			}
			w := workloadOf(deployments[0])
			c := w.pod.Spec.Containers[0]
			if c.Lifecycle == nil || c.Lifecycle.PreStop == nil || c.Lifecycle.PreStop.Sleep == nil {
				return errors.New("requests arrive while it stops")
			}
			first := c.Lifecycle.PreStop.Sleep.Seconds
			ttl, within := seconds(value(w, "LOCK_TTL")), seconds(value(w, "SHUTDOWN_WITHIN"))
			return errors.Join(
				unless(ttl > 0 && within > 0 && grace(w) >= first+within+5, "%d s of grace for %d s and %d s", grace(w), first,
					within),
				unless(grace(w) > first+ttl, "%d s of grace for %d s and a TTL of %d s", grace(w), first, ttl),
				unless(c.ReadinessProbe != nil && c.ReadinessProbe.HTTPGet != nil && c.ReadinessProbe.HTTPGet.Path == "/ready",
					"it is not ready by Healthy"),
				unless(c.LivenessProbe == nil, "it restarts"),
			)
		},
		[]func(objects){
			func(all objects) {
				*of[*appsv1.Deployment](all)[0].Spec.Template.Spec.TerminationGracePeriodSeconds = 34
			},
			func(all objects) {
				of[*appsv1.Deployment](all)[0].Spec.Template.Spec.Containers[0].Lifecycle = nil
			},
			func(all objects) {
				c := &of[*appsv1.Deployment](all)[0].Spec.Template.Spec.Containers[0]
				c.LivenessProbe = c.ReadinessProbe
			},
		},
	},
}

func last[T any](all []T) T { return all[len(all)-1] }

func workloadOf(o runtime.Object) workload { return workloads(objects{o})[0] }

// nodesOf returns the Secret from which each container reads its nodes.
func nodesOf(p corev1.PodSpec) (secrets []string) {
	for _, c := range p.Containers {
		for _, m := range c.VolumeMounts {
			for _, v := range p.Volumes {
				if m.MountPath == "/etc/redlock/nodes" && v.Name == m.Name {
					secrets = append(secrets, v.Secret.SecretName)
				}
			}
		}
	}
	return secrets
}

// trusted are the rules of clients under TLS.
var trusted = []rule{{
	"each client trusts the authority of the servers",
	eachPod(func(w workload) error {
		c := w.pod.Spec.Containers[0]
		mounted := slices.ContainsFunc(c.VolumeMounts,
			func(m corev1.VolumeMount) bool { return m.MountPath == "/etc/redlock/ca" })
		return unless(mounted && (flag(w, "cacert") == "/etc/redlock/ca/ca.crt" ||
			value(w, "SSL_CERT_DIR") == "/etc/redlock/ca"), "it does not")
	}),
	[]func(objects){
		spoilPod(func(p *corev1.PodSpec) { p.Containers[0].VolumeMounts = nil }),
		func(all objects) {
			for _, w := range workloads(all) {
				w.pod.Spec.Containers[0].Args, w.pod.Spec.Containers[0].Env = nil, nil
			}
		},
	},
}}

// guarded are the rules of clients of servers that keep nothing.
var guarded = []rule{
	{
		"each client has the guard, with the same maxTTL, and no longer TTL or minimum hold",
		eachPod(func(w workload) error {
			longest := max(seconds(flag(w, "ttl")), seconds(flag(w, "min-hold")), seconds(value(w, "LOCK_TTL")))
			return unless(value(w, "REDLOCK_GUARD") == "1m" && longest <= 60, "its guard is %q, and it holds for %d s",
				value(w, "REDLOCK_GUARD"), longest)
		}),
		[]func(objects){
			spoilPod(func(p *corev1.PodSpec) { p.Containers[0].Env = p.Containers[0].Env[:2] }),
			func(all objects) {
				c := &of[*batchv1.CronJob](all)[0].Spec.JobTemplate.Spec.Template.Spec.Containers[0]
				c.Args = append([]string{"run", "--min-hold=2m"}, c.Args[1:]...)
			},
		},
	},
	{
		"an administrator's Job admits new servers",
		func(all objects) error {
			for _, j := range of[*batchv1.Job](all) {
				if slices.Contains(j.Spec.Template.Spec.Containers[0].Args, "--admit") {
					return unless(slices.Equal(nodesOf(j.Spec.Template.Spec), []string{"redlock-admin"}) && j.Labels["app.kubernetes.io/name"] == j.Name,
						"by another user")
				}
			}
			return errors.New("there is none")
		},
		[]func(objects){func(all objects) {
			for _, j := range of[*batchv1.Job](all) {
				j.Spec.Template.Spec.Containers[0].Args = []string{"doctor"}
			}
		}},
	},
}

// rules are those of each kustomization.
var rules = map[string][]rule{
	"base/servers":           slices.Concat(servers, everyPod, kept("redis.conf")),
	"overlays/tls/servers":   slices.Concat(servers, everyPod, kept("redis.conf", "tls.conf"), underTLS),
	"overlays/guard/servers": slices.Concat(servers, everyPod, underGuard),
	"base/clients":           slices.Concat(clients, everyPod),
	"overlays/tls/clients":   slices.Concat(clients, everyPod, trusted),
	"overlays/guard/clients": slices.Concat(clients, everyPod, guarded),
}

func TestEachKustomizationHasWhatThePromisesRestOn(t *testing.T) {
	for _, k := range kustomizations(t) {
		all := render(t, k)
		assert.NotEmpty(t, rules[k], k)
		for _, r := range rules[k] {
			assert.NoError(t, r.check(all), "%s: %s", k, r.says)
		}
	}
}

func TestEachRuleNoticesManifestsThatLackIt(t *testing.T) {
	for _, k := range kustomizations(t) {
		all := render(t, k)
		for _, r := range rules[k] {
			assert.NotEmpty(t, r.spoil, r.says)
			for i, spoil := range r.spoil {
				spoilt := copied(all)
				spoil(spoilt)
				assert.Error(t, r.check(spoilt), "%s: %s: %d", k, r.says, i)
			}
		}
	}
}

// latestAttempt returns how many seconds after its time the last attempt of a job may begin. Kubernetes
// waits for 10 s before the first retry, and for twice as long before each next one.
func latestAttempt(s batchv1.CronJobSpec) int64 {
	if s.StartingDeadlineSeconds == nil || s.JobTemplate.Spec.BackoffLimit == nil {
		return math.MaxInt32
	}
	return *s.StartingDeadlineSeconds + 10*(1<<*s.JobTemplate.Spec.BackoffLimit-1)
}
