import { copyFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { unprivilegedAccount } from '../../scripts/servers/account.mjs'
import { findBinary } from '../../scripts/servers/find-binary.mjs'
import { freePort } from '../../scripts/servers/free-port.mjs'
import { startServer } from '../../scripts/servers/server.mjs'
import { folder } from './files.ts'

interface Alert {
  readonly labels: Readonly<Record<string, string>>
  readonly annotations: Readonly<Record<string, string>>
  readonly state: 'pending' | 'firing'
}

interface PrometheusServer extends AsyncDisposable {
  /** The number of series in the result. */
  count(expression: string): Promise<number>
  alerts(): Promise<readonly Alert[]>
}

/** A Prometheus with the rules of `observability/`, which scrapes one process several times per second. */
export async function startPrometheus(target: string): Promise<PrometheusServer> {
  // In the Debian package of promtool.
  const binary = findBinary('prometheus')
  if (binary === undefined) throw new Error('prometheus is not installed: run the tests through scripts/services.')
  const url = `http://127.0.0.1:${await freePort()}`
  const configuration = {
    global: { scrape_interval: '200ms', scrape_timeout: '200ms', evaluation_interval: '200ms' },
    rule_files: ['ackord.rules.yaml'],
    scrape_configs: [{ job_name: 'orders', static_configs: [{ targets: [target] }] }],
  }
  const server = await startServer({
    name: 'prometheus',
    account: unprivilegedAccount('prometheus'),
    launch(directory) {
      // Copied, because its account may not read the repository.
      copyFileSync(`${folder}prometheus/ackord.rules.yaml`, join(directory, 'ackord.rules.yaml'))
      writeFileSync(join(directory, 'prometheus.yml'), stringify(configuration))
      return {
        file: binary,
        args: [
          `--config.file=${join(directory, 'prometheus.yml')}`,
          `--storage.tsdb.path=${join(directory, 'data')}`,
          `--web.listen-address=${new URL(url).host}`,
        ],
      }
    },
    ready: async () => {
      const { ok, status } = await fetch(`${url}/-/ready`)
      if (!ok) throw new Error(`It answers ${status}.`)
      return url
    },
  })

  async function api<T>(path: string): Promise<T> {
    const response = await fetch(`${url}/api/v1/${path}`)
    // The structure is that of Prometheus' API.
    const { status, data, error } = (await response.json()) as { readonly status: string; readonly data: T; readonly error?: string }
    if (status !== 'success') throw new Error(`Prometheus refuses ${path}: ${error}`)
    return data
  }

  return {
    async count(expression) {
      const { result } = await api<{ readonly result: readonly unknown[] }>(`query?query=${encodeURIComponent(expression)}`)
      return result.length
    },
    async alerts() {
      return (await api<{ readonly alerts: readonly Alert[] }>('alerts')).alerts
    },
    [Symbol.asyncDispose]: () => server.stop(),
  }
}
