import { appendFileSync, readFileSync } from 'node:fs'
import { probe } from '@ackord/core/internal'
import { runCrashable } from '../../src/crash/process/service-process.ts'

const { TOY_FOLDER = '', TOY_FAULT, ACKORD_CRASH_AT } = process.env
const read = (file: string) => readFileSync(`${TOY_FOLDER}/${file}`, 'utf8').split('\n').slice(0, -1)
const write = (file: string, line: string) => appendFileSync(`${TOY_FOLDER}/${file}`, `${line}\n`)

/** Applies the fault of a point. Only a service that is to be killed has these faults: the others run for the cleanup. */
async function reach(point: string): Promise<void> {
  if (TOY_FAULT === 'ends' || (TOY_FAULT === 'exits' && ACKORD_CRASH_AT !== undefined)) process.exit(3)
  if (TOY_FAULT === 'dies elsewhere') process.kill(process.pid, 'SIGKILL')
  if (TOY_FAULT !== 'reaches nothing') await probe(point)
}

/** A service whose store and broker are files, so that they outlive it. It handles one command after the other, and publishes immediately. */
async function handleAll(): Promise<void> {
  for (const id of read('commands').slice(read('acked').length)) {
    await reach('message.received')
    if (TOY_FAULT === 'applies twice' || !read('inbox').includes(id)) {
      write('applied', id)
      write('inbox', id)
      if (TOY_FAULT !== 'loses events') write('published', `event of ${id}`)
    }
    await reach('message.beforeAck')
    write('acked', id)
  }
}

write('pids', String(process.pid))
await runCrashable(process, async () => {
  if (TOY_FAULT === 'never starts') await new Promise(() => {})
  let handling = Promise.resolve()
  const timer = setInterval(() => {
    handling = handling.then(handleAll)
  }, 5)
  return {
    isIdle: () => TOY_FAULT !== 'is never idle' && read('commands').length === read('acked').length,
    async stop() {
      if (TOY_FAULT === 'never ends') return
      clearInterval(timer)
      await handling
      if (TOY_FAULT === 'fails to stop') throw new Error('the service cannot stop')
    },
  }
})
