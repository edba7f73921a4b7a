# What `make install` and `make deb` install, in four components: runtime (the programs and what
# they read), examples (training programs, which need LibTorch), dev (for building training
# programs), python (the Python package). Nothing depends on the configured prefix: cmake --install --prefix DIR decides.
set(RUBATO_EXAMPLES_DIR "${CMAKE_INSTALL_LIBEXECDIR}/rubato/examples")
set(RUBATO_CMAKE_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/Rubato")

# --- Manual pages and completions: printed by the programs ----------------------------------------
set(described "${CMAKE_BINARY_DIR}/described")
file(MAKE_DIRECTORY "${described}")
add_custom_command(
  OUTPUT "${described}/rubato.1" "${described}/rubatod.8" "${described}/rubato.bash"
         "${described}/_rubato" "${described}/rubato.fish" "${described}/job.schema.json"
  COMMAND rubato manpage > "${described}/rubato.1"
  COMMAND rubatod manpage > "${described}/rubatod.8"
  COMMAND rubato completion bash > "${described}/rubato.bash"
  COMMAND rubato completion zsh > "${described}/_rubato"
  COMMAND rubato completion fish > "${described}/rubato.fish"
  COMMAND rubato schema > "${described}/job.schema.json"
  DEPENDS rubato rubatod
  VERBATIM COMMENT "Manual pages and completions")
add_custom_target(described ALL DEPENDS "${described}/rubato.1")

# --- runtime --------------------------------------------------------------------------------------
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME runtime)
install(TARGETS rubato rubatod RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
install(DIRECTORY "${RUBATO_SHARE_DIR}/" DESTINATION "${CMAKE_INSTALL_DATADIR}/rubato")
install(FILES "${described}/job.schema.json" DESTINATION "${CMAKE_INSTALL_DATADIR}/rubato")
install(FILES "${described}/rubato.1" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1")
install(FILES "${described}/rubatod.8" DESTINATION "${CMAKE_INSTALL_MANDIR}/man8")
install(FILES "${described}/rubato.bash" RENAME rubato
  DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions")
install(FILES "${described}/_rubato" DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions")
install(FILES "${described}/rubato.fish"
  DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d")
install(FILES README.md LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(DIRECTORY docs DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(CODE "set(RUBATO_UNIT_IN \"${CMAKE_SOURCE_DIR}/packaging/rubatod.service.in\")
  set(RUBATO_UNIT \"${CMAKE_BINARY_DIR}/rubatod.service\")
  set(RUBATO_BINDIR \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}\")")
install(CODE [[configure_file("${RUBATO_UNIT_IN}" "${RUBATO_UNIT}" @ONLY)]])
install(FILES "${CMAKE_BINARY_DIR}/rubatod.service" DESTINATION lib/systemd/system)

# --- python -----------------------------------------------------------------------------------------
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME python)
install(TARGETS rubato_c LIBRARY DESTINATION lib/python3/dist-packages/rubato)
install(FILES ${RUBATO_PYTHON_MODULES} DESTINATION lib/python3/dist-packages/rubato)
install(DIRECTORY examples/python DESTINATION "${CMAKE_INSTALL_DOCDIR}/examples")

if(RUBATO_TRAIN)
  # --- examples -----------------------------------------------------------------------------------
  set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME examples)
  foreach(source IN LISTS example_sources)
    cmake_path(GET source STEM name)
    install(TARGETS ${name} RUNTIME DESTINATION "${RUBATO_EXAMPLES_DIR}")
  endforeach()

  # --- dev: find_package(Rubato) gives the target Rubato::train -------------------------------------
  set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME dev)
  install(DIRECTORY include/rubato DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
  install(TARGETS rubato_base rubato_elastic rubato_train
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  include(CMakePackageConfigHelpers)
  configure_package_config_file(cmake/RubatoConfig.cmake.in "${CMAKE_BINARY_DIR}/RubatoConfig.cmake"
    INSTALL_DESTINATION "${RUBATO_CMAKE_DIR}"
    PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
  # Before 1.0 the interface may change with every minor version.
  write_basic_package_version_file("${CMAKE_BINARY_DIR}/RubatoConfigVersion.cmake"
    COMPATIBILITY SameMinorVersion)
  install(FILES "${CMAKE_BINARY_DIR}/RubatoConfig.cmake"
    "${CMAKE_BINARY_DIR}/RubatoConfigVersion.cmake" DESTINATION "${RUBATO_CMAKE_DIR}")
  install(FILES ${example_sources} examples/data.h examples/CMakeLists.txt
    DESTINATION "${CMAKE_INSTALL_DOCDIR}/examples")
endif()
unset(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME)
