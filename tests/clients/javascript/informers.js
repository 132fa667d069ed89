// Watches and informers.

import assert from 'node:assert/strict';
import { CoreV1Api, Watch, makeInformer } from '@kubernetes/client-node';
import { Events, namespace } from './report.js';

export async function informers(config, report) {
  const core = config.makeApiClient(CoreV1Api);

  await report.check('a watch from the version of a list reports all events', async () => {
    const list = await core.listNamespacedConfigMap({ namespace });
    const { resourceVersion } = list.metadata;
    await create(core, 'watched');
    await touch(core, 'watched');
    await core.deleteNamespacedConfigMap({ namespace, name: 'watched' });
    const events = new Events();
    const controller = await new Watch(config).watch(
      `/api/v1/namespaces/${namespace}/configmaps`,
      { resourceVersion, allowWatchBookmarks: true, labelSelector: 'run=watched' },
      (phase) => events.push(phase),
      (error) => events.push(`done: ${error}`),
    );
    const seen = [await events.next(), await events.next(), await events.next()];
    controller.abort();
    assert.deepEqual(seen, ['ADDED', 'MODIFIED', 'DELETED']);
  });
  await report.check('a watch ends at its timeout', async () => {
    const events = new Events();
    await new Watch(config).watch(
      '/api/v1/configmaps',
      { timeoutSeconds: 1, labelSelector: 'no=body' },
      (phase) => events.push(phase),
      (error) => events.push(`done: ${error ?? 'well'}`),
    );
    assert.equal(await events.next(), 'done: well');
  });
  await report.check('an informer reports all events', async () => {
    const events = new Events();
    const informer = makeInformer(
      config,
      `/api/v1/namespaces/${namespace}/configmaps`,
      () => core.listNamespacedConfigMap({ namespace, labelSelector: 'run=informed' }),
      'run=informed',
    );
    for (const kind of ['add', 'update', 'delete', 'error']) {
      informer.on(kind, (object) => events.push(`${kind} ${object.metadata?.name ?? object}`));
    }
    await informer.start();
    await create(core, 'informed');
    assert.equal(await events.next(), 'add informed');
    assert.equal(informer.list(namespace).length, 1);
    await touch(core, 'informed');
    assert.equal(await events.next(), 'update informed');
    await core.deleteNamespacedConfigMap({ namespace, name: 'informed' });
    assert.equal(await events.next(), 'delete informed');
    await informer.stop();
  });
}

async function create(core, name) {
  const body = { metadata: { name, labels: { run: name } } };
  await core.createNamespacedConfigMap({ namespace, body });
}

async function touch(core, name) {
  const body = [{ op: 'add', path: '/data', value: { key: 'value' } }];
  await core.patchNamespacedConfigMap({ namespace, name, body });
}
