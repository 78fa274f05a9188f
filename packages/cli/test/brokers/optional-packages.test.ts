import { readFileSync } from 'node:fs'
import { beforeAll, describe, expect, it } from 'vitest'
import { exitCode } from '../../src/output/errors.ts'
import { version } from '../../src/version.ts'
import { Ackord, type AckordOptions } from '../support/ackord.ts'
import { bundleMain } from '../support/bundle-main.ts'
import { installCommand, installFake, projectWith } from '../support/projects.ts'

beforeAll(bundleMain)

const client = '@aws-sdk/client-sqs'
const install = `npm install @ackord/aws@${version} ${client}@3`

/** Runs the command as it is installed without the packages that only some brokers need. No server listens at the URL. */
async function doctor(options: AckordOptions = {}) {
  const args = ['doctor', '--broker', 'sqs://test:test@127.0.0.1:1']
  const quiet = { AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED: 'true' }
  return await new Ackord([process.execPath, installCommand(), ...args], { ...options, env: { ...quiet, ...options.env } }).ended
}

describe('the packages of a broker that users install themselves', () => {
  it('are named with a command that installs them', async () => {
    expect(await doctor()).toMatchObject({
      code: exitCode.usage,
      stderr: `ackord: --broker requires packages that are not installed: ${client}.\n  Install: ${install}\n`,
    })
  })

  it('are loaded from the project in the current directory', async () => {
    const { code, stdout, stderr } = await doctor({ cwd: await projectWith([client]) })
    expect(stderr).toBe('')
    expect(stdout).toContain('Cannot use sqs://***@127.0.0.1:1: connection refused')
    expect(code).toBe(exitCode.unreachable)
  })

  it('are named if they cannot be loaded', async () => {
    const cwd = await projectWith([])
    installFake(cwd, client, "throw new Error('It needs another Node.')")
    expect(await doctor({ cwd })).toMatchObject({
      code: exitCode.usage,
      stderr: `ackord: --broker requires the package ${client}, which cannot be loaded: It needs another Node.\n  Install: ${install}\n`,
    })
  })

  it('are optional peers of the command', () => {
    const { dependencies, peerDependencies, peerDependenciesMeta } = JSON.parse(
      readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
    ) as Record<string, Record<string, unknown>>
    for (const name of Object.keys(peerDependencies ?? {})) {
      expect(peerDependenciesMeta?.[name], name).toEqual({ optional: true })
      expect(dependencies).not.toHaveProperty(name)
    }
    for (const name of ['@ackord/aws', client]) expect(peerDependencies).toHaveProperty(name)
  })
})
