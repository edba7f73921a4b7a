// The script and the style sheet of report.html, each one file, which rubato puts into the page.
import { defineConfig } from 'vite';

export default defineConfig({
  esbuild: { jsx: 'automatic', jsxImportSource: 'preact', charset: 'ascii' },
  publicDir: false,
  build: {
    target: 'es2022',
    outDir: 'dist-report',
    cssCodeSplit: false,
    reportCompressedSize: false,
    lib: { entry: 'src/report/main.tsx', formats: ['iife'], name: 'report', fileName: () => 'report.js' },
    rollupOptions: { output: {
      assetFileNames: 'report.css',
      banner: '/*! With Preact (Jason Miller) and uPlot (Leon Sorokin), both under the MIT license. */',
    } },
  },
});
