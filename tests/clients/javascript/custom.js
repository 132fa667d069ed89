// Custom resources: a CRD, and objects of its kind.

import assert from 'node:assert/strict';
import {
  ApiextensionsV1Api,
  CustomObjectsApi,
  PatchStrategy,
  makeInformer,
  setHeaderOptions,
} from '@kubernetes/client-node';
import { Events, namespace, refused } from './report.js';

const group = 'javascript.interop.example';
const boats = { group, version: 'v1', namespace, plural: 'boats' };
const merge = setHeaderOptions('Content-Type', PatchStrategy.MergePatch);

export async function custom(config, report) {
  const customs = config.makeApiClient(CustomObjectsApi);

  await report.check('a CRD is established', async () => {
    const extensions = config.makeApiClient(ApiextensionsV1Api);
    await extensions.createCustomResourceDefinition({ body: crd() });
    for (;;) {
      const read = await extensions.readCustomResourceDefinition({ name: `boats.${group}` });
      const conditions = read.status?.conditions ?? [];
      if (conditions.some((it) => it.type === 'Established' && it.status === 'True')) return;
    }
  });
  await report.check('custom objects are created, read, changed and deleted', async () => {
    const created = await customs.createNamespacedCustomObject({
      ...boats, body: boat('dinghy', { port: 'home' }),
    });
    assert.deepEqual(created.spec, { crew: 1, port: 'home' });
    const name = 'dinghy';
    const body = { status: { place: 'at sea' }, spec: { crew: 9 } };
    const written = await customs.patchNamespacedCustomObjectStatus({ ...boats, name, body }, merge);
    assert.equal(written.spec.crew, 1);
    assert.equal(written.status.place, 'at sea');
    written.spec.crew = 3;
    await customs.replaceNamespacedCustomObject({ ...boats, name, body: written });
    const list = await customs.listNamespacedCustomObject(boats);
    assert.deepEqual(list.items.map((it) => it.spec.crew), [3]);
    await customs.deleteNamespacedCustomObject({ ...boats, name });
    await refused(404, 'NotFound', () => customs.getNamespacedCustomObject({ ...boats, name }));
  });
  await report.check('a custom object that violates its schema is refused', () =>
    refused(422, 'Invalid', () =>
      customs.createNamespacedCustomObject({ ...boats, body: boat('wrong', { crew: -1 }) })));
  await report.check('an informer watches a custom resource', async () => {
    const events = new Events();
    const informer = makeInformer(
      config,
      `/apis/${group}/v1/namespaces/${namespace}/boats`,
      () => customs.listNamespacedCustomObject(boats),
    );
    for (const kind of ['add', 'update', 'delete', 'error']) {
      informer.on(kind, (object) => events.push(`${kind} ${object.metadata?.name ?? object}`));
    }
    await informer.start();
    await customs.createNamespacedCustomObject({ ...boats, body: boat('barge', {}) });
    assert.equal(await events.next(), 'add barge');
    const body = { spec: { crew: 2 } };
    await customs.patchNamespacedCustomObject({ ...boats, name: 'barge', body }, merge);
    assert.equal(await events.next(), 'update barge');
    await customs.deleteNamespacedCustomObject({ ...boats, name: 'barge' });
    assert.equal(await events.next(), 'delete barge');
    await informer.stop();
  });
}

function boat(name, spec) {
  return { apiVersion: `${group}/v1`, kind: 'Boat', metadata: { name }, spec };
}

function crd() {
  const openAPIV3Schema = {
    type: 'object',
    properties: {
      spec: {
        type: 'object',
        properties: {
          crew: { type: 'integer', minimum: 0, _default: 1 },
          port: { type: 'string' },
        },
      },
      status: { type: 'object', properties: { place: { type: 'string' } } },
    },
  };
  return {
    metadata: { name: `boats.${group}` },
    spec: {
      group,
      scope: 'Namespaced',
      names: { plural: 'boats', singular: 'boat', kind: 'Boat' },
      versions: [{
        name: 'v1', served: true, storage: true,
        schema: { openAPIV3Schema }, subresources: { status: {} },
      }],
    },
  };
}
