import { beforeAll, describe, expect, it } from 'vitest'
import { buildProgram } from '../../src/program.ts'
import { ackord } from '../support/ackord.ts'
import { bundleMain } from '../support/bundle-main.ts'

beforeAll(bundleMain)

describe('help', () => {
  it('is printed by the command alone, which is no failure', async () => {
    const [alone, asked] = await Promise.all([ackord([]), ackord(['--help'])])
    expect(alone).toMatchObject({ code: 0, stderr: '' })
    expect(alone.stdout).toBe(asked.stdout)
    expect(alone.stdout).toContain('Usage: ackord')
  })

  it('of every command ends with examples, whose options exist', () => {
    const program = buildProgram({ execute: () => async () => {}, write: () => {} })
    const all = [program, ...program.commands, ...program.commands.flatMap(({ commands }) => commands)].filter(
      (one) => one.name() !== 'help',
    )
    for (const command of all) {
      const written: string[] = []
      command.configureOutput({ writeOut: (part) => void written.push(part) })
      command.outputHelp()
      const [, examples] = written.join('').split('Examples:\n')
      expect(examples, command.name()).toBeDefined()
      for (const line of (examples ?? '').trim().split('\n')) {
        const [, called = '', ...words] = line
          .trim()
          .replace(/ [|>].*/, '')
          .split(' ')
          .slice(1)
        const options = words.concat(called).filter((word) => word.startsWith('--'))
        const parent = program.commands.find((one) => one.name() === called)
        const target = parent?.commands.find((one) => one.name() === words[0]) ?? parent
        expect(target, line).toBeDefined()
        for (const option of options)
          expect(
            target?.options.map(({ long }) => long),
            line,
          ).toContain(option)
      }
    }
  })
})
