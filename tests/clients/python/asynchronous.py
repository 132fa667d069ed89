"""The asynchronous client of the package kubernetes, which uses aiohttp."""

import asyncio

from kubernetes.aio import client, config, watch

from report import NAMESPACE, check, expect


async def _create_and_watch():
    await config.load_kube_config()
    async with client.ApiClient() as api:
        core = client.CoreV1Api(api)
        version = (await core.list_namespaced_config_map(NAMESPACE)).metadata.resource_version
        metadata = client.V1ObjectMeta(name="asynchronous")
        await core.create_namespaced_config_map(NAMESPACE, client.V1ConfigMap(metadata=metadata))
        await core.patch_namespaced_config_map("asynchronous", NAMESPACE, {"data": {"key": "value"}})
        await core.delete_namespaced_config_map("asynchronous", NAMESPACE)
        seen = []
        async with watch.Watch().stream(
            core.list_namespaced_config_map, NAMESPACE, resource_version=version, timeout_seconds=10
        ) as events:
            async for event in events:
                seen.append(event["type"])
                if event["type"] == "DELETED":
                    break
        return seen


@check
def configmaps_are_written_and_watched():
    expect("events", asyncio.run(_create_and_watch()), ["ADDED", "MODIFIED", "DELETED"])
