import { describe, expect, it } from 'vitest'
import { detectPackageManager, runScript } from '../../src/command/package-manager.ts'

describe('the package manager', () => {
  it.each([
    ['npm/11.0.0 node/v22.14.0 linux x64 workspaces/false', 'npm'],
    ['pnpm/10.2.0 npm/? node/v22.14.0 linux x64', 'pnpm'],
    ['yarn/4.6.0 npm/? node/v22.14.0 linux x64', 'yarn'],
    ['bun/1.2.0 npm/? node/v22.14.0 linux x64', 'bun'],
    ['other/1.0.0', 'npm'],
    [undefined, 'npm'],
  ] as const)('of %s is %s', (userAgent, manager) => {
    expect(detectPackageManager(userAgent)).toBe(manager)
  })

  it('runs scripts in its own way', () => {
    expect(runScript('npm', 'start')).toBe('npm start')
    expect(runScript('npm', 'send')).toBe('npm run send')
    expect(runScript('yarn', 'send')).toBe('yarn send')
    expect(runScript('bun', 'test')).toBe('bun run test')
  })
})
