import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { bundle } from '../../../scripts/bundle.mjs'
import { amqpUrl, openWorld } from './support/world.ts'

/** `make test-docs`, which runs the other READMEs, has no RabbitMQ 4. */
it('the example in the README runs to its end', async () => {
  await using world = await openWorld()
  const queue = await world.queue()
  const readme = readFileSync(new URL('../README.md', import.meta.url), 'utf8')
  const code = /```ts\n(.*?)```/s.exec(readme)?.[1] ?? ''
  const folder = fileURLToPath(new URL(`../../../.cache/amqp-readme-${process.pid}/`, import.meta.url))
  mkdirSync(folder, { recursive: true })
  try {
    writeFileSync(`${folder}example.ts`, code.replaceAll("'orders'", `'${queue}'`))
    await bundle(`${folder}example.ts`, `${folder}example.mjs`)
    const child = spawn(process.execPath, [`${folder}example.mjs`], {
      env: { ...process.env, AMQP_URL: amqpUrl },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let printed = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (text) => {
        printed += String(text)
      })
    }
    const [status] = await once(child, 'close')
    expect({ status, printed }).toEqual({ status: 0, printed: 'e1 order.placed 1\n' })
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})
