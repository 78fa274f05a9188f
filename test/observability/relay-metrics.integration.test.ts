import { metricTable } from '@ackord/core/internal'
import { beforeAll, describe, expect, it } from 'vitest'
import { type Ackord, start } from '../../packages/cli/test/support/ackord.ts'
import { bundleMain } from '../../packages/cli/test/support/bundle-main.ts'
import { parsePrometheusText } from '../../packages/cli/test/support/prometheus-text.ts'
import { openTestStore, openTestTopic, postgresUrl, rabbitmqUrl, type TestStore } from '../../packages/cli/test/support/services.ts'
import { until } from '../../packages/cli/test/support/until.ts'
import { ownName } from '../../scripts/test-run.mjs'
import { dashboardQueries, rules } from './files.ts'
import { knownSeries } from './metric-series.ts'
import { startPrometheus } from './prometheus-server.ts'
import { parsePromql, type Selector } from './promql.ts'

beforeAll(bundleMain)

const isOfRelay = ({ metric }: Selector) => {
  const name = knownSeries.get(metric)?.metric
  return name !== undefined && metricTable[name].from === 'relay'
}

async function startRelay(store: TestStore): Promise<{ readonly relay: Ackord; readonly url: string }> {
  const relay = start(['relay', '--from', ...store.args.slice(1), '--to', rabbitmqUrl, '--json', '--port', '0'])
  await relay.said('The relay is running.')
  const line = relay.stdout.split('\n').find((each) => each.includes('The relay is running.')) ?? ''
  const { health } = JSON.parse(line) as { readonly health: string }
  return { relay, url: health }
}

describe('a running relay', () => {
  it('serves every series of a relay that dashboard and rules select', async () => {
    await using store = await openTestStore(postgresUrl)
    await using topic = await openTestTopic(rabbitmqUrl)
    await store.fill(topic.topic, 3)
    const { relay, url } = await startRelay(store)
    const scrape = async () => await (await fetch(`${url}/metrics`)).text()
    await until(async () => (await scrape()).includes(`ackord_outbox_published_total{destination="${topic.topic}"} 3`))
    const samples = [...parsePrometheusText(await scrape()).values()].flatMap((family) => family.samples)
    relay.child.kill('SIGTERM')
    expect((await relay.ended).code).toBe(0)

    const selectors = [...dashboardQueries, ...rules].flatMap(({ expr }) => parsePromql(expr).selectors).filter(isOfRelay)
    expect(selectors.length).toBeGreaterThan(30)
    const missing = selectors.filter(({ metric, matchers }) => {
      const own = matchers.filter(({ label }) => label !== 'job' && label !== 'instance')
      const isSelected = (labels: Readonly<Record<string, string>>) =>
        own.every(({ label, value }) => label in labels && (value.startsWith('$') || value.split('|').includes(labels[label] ?? '')))
      return !samples.some(({ name, labels }) => name === metric && isSelected(labels))
    })
    expect(missing).toEqual([])
  })

  it('has a result in a real Prometheus for every query of the dashboard about relays, and an alert about a missing queue', async () => {
    await using store = await openTestStore(postgresUrl)
    await using topic = await openTestTopic(rabbitmqUrl)
    const missingQueue = `no-such-queue-${ownName()}`
    await store.fill(topic.topic, 3)
    await store.fill(missingQueue, 2)
    const { relay, url } = await startRelay(store)
    await using prometheus = await startPrometheus(new URL(url).host)

    const downAlerts = async () => (await prometheus.alerts()).filter(({ labels }) => labels['alertname'] === 'AckordDestinationDown')
    await until(async () => (await downAlerts()).length > 0)
    expect(await downAlerts()).toMatchObject([
      {
        state: 'pending',
        labels: { job: 'orders', destination: missingQueue, severity: 'critical' },
        annotations: { summary: `Destination ${missingQueue} is down.` },
      },
    ])

    const queries = dashboardQueries.filter(({ expr }) => parsePromql(expr).selectors.every(isOfRelay))
    expect(queries.length).toBeGreaterThan(20)
    for (const { expr } of queries) {
      const query = expr.replaceAll('$__rate_interval', '10s').replaceAll(/"\$\w+"/g, '".*"')
      await until(async () => (await prometheus.count(query)) > 0).catch((cause) => {
        throw new Error(`The query has no result: ${query}`, { cause })
      })
    }
    relay.child.kill('SIGTERM')
    expect((await relay.ended).code).toBe(0)
  })
})
