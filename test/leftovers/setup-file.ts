import { cleanUpAfterThisFile } from './after-each-file.ts'

cleanUpAfterThisFile()
