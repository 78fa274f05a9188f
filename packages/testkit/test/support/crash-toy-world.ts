import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { CrashWorld } from '../../src/crash/crash-points.ts'

/** Opens a world of files for the toy service. `survivors` returns the processes that are still alive. The default `patience` lets a process start on a busy machine. */
export function openToyWorld(service: string, fault?: string, patience = 10_000): CrashWorld & { readonly survivors: () => string[] } {
  const folder = mkdtempSync(join(tmpdir(), 'ackord-crash-'))
  for (const file of ['commands', 'acked', 'applied', 'inbox', 'published', 'pids']) writeFileSync(join(folder, file), '')
  const read = (file: string) => readFileSync(join(folder, file), 'utf8').split('\n').slice(0, -1)
  let pids: string[] = []
  return {
    program: { file: service, environment: { ...process.env, TOY_FOLDER: folder, TOY_FAULT: fault } },
    batchSize: 1,
    patience,
    async send(ids) {
      appendFileSync(join(folder, 'commands'), ids.map((id) => `${id}\n`).join(''))
    },
    eventOf: (id) => `event of ${id}`,
    observe: async () => ({
      applied: read('applied'),
      inbox: read('inbox'),
      published: read('published'),
      waiting: read('commands').length - read('acked').length,
      outbox: { ready: 0, waiting: 0, leased: 0, parked: 0 },
    }),
    knowsOf: async () => true,
    survivors: () => pids.filter(isAlive),
    async [Symbol.asyncDispose]() {
      pids = read('pids')
      rmSync(folder, { recursive: true })
    },
  }
}

function isAlive(pid: string): boolean {
  try {
    return process.kill(Number(pid), 0)
  } catch {
    return false
  }
}
