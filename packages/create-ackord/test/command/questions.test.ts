import { PassThrough } from 'node:stream'
import { stripVTControlCharacters } from 'node:util'
import { describe, expect, it } from 'vitest'
import { parseFlags } from '../../src/command/flags.ts'
import { askQuestions } from '../../src/command/questions.ts'

/** A terminal on which each question is answered by keys: `answers` has them by a part of the question. */
function openTerminal(answers: Readonly<Record<string, string>>) {
  const input = new PassThrough()
  const output = new PassThrough()
  const asked: string[] = []
  output.on('data', (chunk: Buffer) => {
    const printed = stripVTControlCharacters(chunk.toString())
    for (const [question, keys] of Object.entries(answers)) {
      if (!printed.includes(question) || asked.includes(question)) continue
      asked.push(question)
      // After the question is drawn completely.
      setImmediate(() => input.write(keys))
    }
  })
  return { input, output, asked }
}

const [enter, down, escapeKey] = ['\r', '\u001b[B', '\u001b']

describe('the questions', () => {
  it('ask for everything, with the defaults first', async () => {
    const terminal = openTerminal({ directory: enter, 'its data': enter, ORM: enter, 'come from': enter, 'HTTP API': enter })
    expect(await askQuestions(parseFlags([]), terminal)).toEqual({
      directory: 'my-service',
      name: 'my-service',
      choices: { store: 'postgres', client: 'pg', broker: 'rabbitmq', framework: 'none' },
    })
    expect(terminal.asked).toHaveLength(5)
  })

  it('take other answers', async () => {
    const terminal = openTerminal({
      directory: `shop${enter}`,
      'its data': down + enter,
      ORM: down + enter,
      'come from': down + enter,
      'HTTP API': down + enter,
    })
    expect(await askQuestions(parseFlags([]), terminal)).toEqual({
      directory: 'shop',
      name: 'shop',
      choices: { store: 'mysql', client: 'drizzle', broker: 'nats', framework: 'fastify' },
    })
  })

  it('leave out what flags say, and the client of a store that has only one', async () => {
    const terminal = openTerminal({ 'come from': enter })
    const flags = parseFlags(['shop', '--store', 'sqlite', '--framework', 'hono'])
    const { choices } = await askQuestions(flags, terminal)
    expect(choices).toEqual({ store: 'sqlite', client: 'sqlite', broker: 'rabbitmq', framework: 'hono' })
    expect(terminal.asked).toEqual(['come from'])
  })

  it('can be ended', async () => {
    await expect(askQuestions(parseFlags(['shop']), openTerminal({ 'its data': escapeKey }))).rejects.toThrow('Nothing was created.')
  })
})
