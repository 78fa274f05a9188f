import { crashProgram } from '../../support/crash-program.ts'

export const crashService = (): string => crashProgram(new URL('./crash-service.ts', import.meta.url))
