// The typed clients, which are generated from OpenAPI.

import assert from 'node:assert/strict';
import {
  AppsV1Api,
  CoordinationV1Api,
  CoreV1Api,
  KubernetesObjectApi,
  PatchStrategy,
  V1MicroTime,
  VersionApi,
  setHeaderOptions,
} from '@kubernetes/client-node';
import { namespace, refused } from './report.js';

export async function typed(config, report) {
  const core = config.makeApiClient(CoreV1Api);

  await report.check('the server reports its version', async () => {
    const version = await config.makeApiClient(VersionApi).getCode();
    assert.equal(version.major, '1');
  });
  await report.check('a namespace is created', async () => {
    const created = await core.createNamespace({ body: { metadata: { name: namespace } } });
    assert.equal(created.status.phase, 'Active');
    // Pods need the service account, and its controller may be slow or absent.
    const body = { metadata: { name: 'default' } };
    await core.createNamespacedServiceAccount({ namespace, body }).catch((error) => {
      assert.equal(error.code, 409, error);
    });
  });
  await report.check('configmaps are created, read, changed and deleted', () => configMaps(core));
  await report.check('patches of all types are accepted', () => patches(core));
  await report.check('lists are read in pages', () => pages(core));
  await report.check('pods are defaulted and selected by field', async () => {
    const created = await core.createNamespacedPod({
      namespace,
      body: { metadata: { name: 'a-pod' }, spec: podSpec() },
    });
    assert.equal(created.status.phase, 'Pending');
    assert.ok(created.metadata.creationTimestamp instanceof Date);
    const list = await core.listPodForAllNamespaces({ fieldSelector: 'metadata.name=a-pod' });
    assert.deepEqual(list.items.map((it) => it.metadata.name), ['a-pod']);
    await core.deleteNamespacedPod({ namespace, name: 'a-pod', gracePeriodSeconds: 0 });
    await refused(404, 'NotFound', () => core.readNamespacedPod({ namespace, name: 'a-pod' }));
  });
  await report.check('deployments are scaled', () => deployments(config.makeApiClient(AppsV1Api)));
  await report.check('leases preserve their times', async () => {
    const renewTime = new V1MicroTime('2026-01-02T03:04:05.678Z');
    const lease = await config.makeApiClient(CoordinationV1Api).createNamespacedLease({
      namespace,
      body: { metadata: { name: 'lease' }, spec: { holderIdentity: 'me', renewTime } },
    });
    assert.equal(new Date(lease.spec.renewTime).getTime(), renewTime.getTime());
  });
  await report.check('objects of any kind are found by discovery', async () => {
    const objects = KubernetesObjectApi.makeApiClient(config);
    const body = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'any', namespace } };
    const created = await objects.create({ ...body, data: { key: 'value' } });
    assert.deepEqual(created.data, { key: 'value' });
    const patched = await objects.patch({ ...body, data: { key: 'other' } });
    assert.deepEqual(patched.data, { key: 'other' });
    await objects.delete(body);
    await refused(404, 'NotFound', () => objects.read(body));
  });
}

function podSpec() {
  return {
    nodeSelector: { nowhere: 'found' },
    containers: [{ name: 'main', image: 'registry.invalid/image:1' }],
  };
}

async function configMaps(core) {
  const name = 'a-configmap';
  const body = { metadata: { name }, data: { key: 'välue' } };
  const created = await core.createNamespacedConfigMap({ namespace, body });
  assert.deepEqual(created.data, { key: 'välue' });
  await refused(409, 'AlreadyExists', () => core.createNamespacedConfigMap({ namespace, body }));
  const changed = { ...created, data: { key: 'other' } };
  const replaced = await core.replaceNamespacedConfigMap({ namespace, name, body: changed });
  assert.notEqual(replaced.metadata.resourceVersion, created.metadata.resourceVersion);
  await refused(409, 'Conflict', () =>
    core.replaceNamespacedConfigMap({ namespace, name, body: changed }));
  const wrong = { metadata: { name: 'Not A Name' } };
  await refused(422, 'Invalid', () => core.createNamespacedConfigMap({ namespace, body: wrong }));
  await core.deleteNamespacedConfigMap({ namespace, name });
  await refused(404, 'NotFound', () => core.readNamespacedConfigMap({ namespace, name }));
}

async function patches(core) {
  const name = 'patched';
  await core.createNamespacedConfigMap({ namespace, body: { metadata: { name }, data: { a: '1' } } });
  const patch = (strategy, body) =>
    core.patchNamespacedConfigMap(
      { namespace, name, body },
      setHeaderOptions('Content-Type', strategy),
    );
  // The client's own default is a JSON patch.
  const json = [{ op: 'add', path: '/data/b', value: '2' }];
  await core.patchNamespacedConfigMap({ namespace, name, body: json });
  await patch(PatchStrategy.MergePatch, { data: { a: null } });
  const last = await patch(PatchStrategy.StrategicMergePatch, { data: { c: '3' } });
  assert.deepEqual(last.data, { b: '2', c: '3' });
}

async function pages(core) {
  for (const number of [0, 1, 2, 3, 4]) {
    const metadata = { name: `page-${number}`, labels: { book: 'one' } };
    await core.createNamespacedConfigMap({ namespace, body: { metadata } });
  }
  const names = [];
  let _continue;
  do {
    const page = await core.listNamespacedConfigMap({
      namespace, labelSelector: 'book=one', limit: 2, _continue,
    });
    names.push(...page.items.map((it) => it.metadata.name));
    _continue = page.metadata._continue;
  } while (_continue);
  assert.deepEqual(names, ['page-0', 'page-1', 'page-2', 'page-3', 'page-4']);
  await core.deleteCollectionNamespacedConfigMap({ namespace, labelSelector: 'book=one' });
  const left = await core.listNamespacedConfigMap({ namespace, labelSelector: 'book=one' });
  assert.equal(left.items.length, 0);
}

async function deployments(apps) {
  const labels = { run: 'a-deployment' };
  const name = 'a-deployment';
  await apps.createNamespacedDeployment({
    namespace,
    body: {
      metadata: { name, labels },
      spec: { replicas: 0, selector: { matchLabels: labels }, template: { metadata: { labels }, spec: podSpec() } },
    },
  });
  const scale = await apps.readNamespacedDeploymentScale({ namespace, name });
  scale.spec.replicas = 2;
  // A write of a controller in between must not be a conflict.
  delete scale.metadata.resourceVersion;
  await apps.replaceNamespacedDeploymentScale({ namespace, name, body: scale });
  const read = await apps.readNamespacedDeployment({ namespace, name });
  assert.equal(read.spec.replicas, 2);
  assert.equal(read.spec.strategy.type, 'RollingUpdate');
  await apps.deleteNamespacedDeployment({ namespace, name, propagationPolicy: 'Background' });
}
